"""The library over a URL, for asyncio. `../blocking` is made of it by `setup/blocking`."""
