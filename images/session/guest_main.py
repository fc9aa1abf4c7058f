"""Entry of the guest: `/usr/bin/python3 -I /opt/holdfast/guest` runs this file."""

from holdfast.runtime.guest.supervisor import main

main()
