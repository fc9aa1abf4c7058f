// Loaded before a suite in JavaScript: names below `localhost` are those of this machine, as browsers have it.
const dns = require('node:dns')
const known = dns.lookup
dns.lookup = (host, ...rest) =>
  known(typeof host === 'string' && host.endsWith('.localhost') ? 'localhost' : host, ...rest)
