"""Sign-in of people: issuers of OpenID Connect, trusted proxies, and the access keys that people get."""
