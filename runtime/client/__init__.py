"""The library over a URL: the same calls, made to a server instead of in process; blocking and async."""
