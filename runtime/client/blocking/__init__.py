"""The library over a URL, blocking: made of `../aio` by `setup/blocking`."""

from holdfast.runtime.http_doors import door_packages

door_packages.check("client", "use a server")
