"""The library over a URL, blocking: made of `../aio` by `setup/blocking`."""

from holdfast.runtime.http_doors import door_setup

door_setup.check_packages("client", "use a server")
