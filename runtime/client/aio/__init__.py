"""The library over a URL, for asyncio. `../blocking` is made of it by `setup/blocking`."""

from holdfast.runtime.http_doors import door_setup

door_setup.check_packages("client", "use a server")
