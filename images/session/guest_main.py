"""Entry of the guest: `/usr/bin/python3 -I /opt/holdfast/guest` runs this file.

Every session waits for what is imported here. Nothing is collected meanwhile, since all of it stays; and what
can do without OpenSSL is loaded without it, because the supervisor makes no use of it.
"""

import gc
import sys

gc.disable()
_OPENSSL = ("ssl", "_hashlib")
sys.modules.update(dict.fromkeys(_OPENSSL))  # type: ignore[arg-type]  # None: their import fails
import asyncio  # noqa: E402, F401
import hashlib  # noqa: E402, F401
import hmac  # noqa: E402, F401

for name in _OPENSSL:
    del sys.modules[name]

from holdfast.runtime.guest.supervisor import main  # noqa: E402

gc.freeze()
gc.enable()

if __name__ == "__main__":
    main()
