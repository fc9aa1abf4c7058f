"""Entry of the guest: `/usr/bin/python3 -I /opt/holdfast/guest` runs this file.

Every session waits for the imports here. Garbage collection is off in the meantime, since everything stays;
OpenSSL is not loaded, because the supervisor does not use it.
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
