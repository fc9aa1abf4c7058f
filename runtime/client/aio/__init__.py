"""The library over a URL, for asyncio. `../blocking` is made of it by `setup/blocking`."""

from holdfast.runtime.http_doors import door_packages

door_packages.check("client", "use a server")
