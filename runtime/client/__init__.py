"""The library over a URL: the same calls, made of a server instead of in process; blocking and async."""
