"""Projects of Node.js: suites of mocha and of Node.js's own runner."""

from __future__ import annotations

from tests.compat.projects.project import Project

PROJECTS = (
    Project(
        name="ws",
        kind="node",
        does="its suite with mocha: WebSocket servers and clients",
        fetch="debian_orig node-ws; packages mocha",
        version='sed -n \'s/.*"version": "\\(.*\\)".*/\\1/p\' package.json',
        # mocha measures by the time of day how long a case took (Runnable.run): in a copy, the case that was
        # running has also taken the time that the snapshot waited.
        run="for n in 1 2 3; do mocha --reporter tap --exit --timeout 3600000 'test/*.test.js' || exit; done",
        reads="tap",
        stack="node",
    ),
    Project(
        name="fastify",
        kind="node",
        does="its tests of routes, replies, hooks, streams and closing, with Node.js's own runner",
        fetch="""
            export NPM_CONFIG_PROGRESS=false NPM_CONFIG_LOGLEVEL=error NPM_CONFIG_AUDIT=false NPM_CONFIG_FUND=false
            unpacked sh -c 'npm pack -s fastify >/dev/null; tar -xf *.tgz; rm *.tgz'
            sed -i 's/"devDependencies"/"unused"/' package.json
            npm install split2 proxyquire undici@7 fast-json-body fastify-plugin@6 ajv@8 ajv-errors ajv-formats joi yup \\
                http-errors vary JSONStream ajv-i18n ajv-merge-patch fluent-json-schema""",
        version='sed -n \'s/.*"version": "\\(.*\\)".*/\\1/p\' package.json',
        known="its cases of aborted requests let a client go after 0.5 s and answer after 1 s; in a copy both timers may "
        "be due at once, as in a plain run that is stopped for a second, and then no request is aborted and the case waits "
        "for ever",
        patience=180,
        run="""
            node --test --test-concurrency=2 --test-reporter=tap test/route*.test.js test/reply*.test.js \\
                test/hooks*.test.js test/stream*.test.js test/close*.test.js""",
        reads="tap",
        stack="node",
    ),
)
