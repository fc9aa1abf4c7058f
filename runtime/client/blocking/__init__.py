"""The library over a URL, blocking: made of `../aio` by `setup/blocking`."""
