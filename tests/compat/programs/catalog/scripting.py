"""Node.js, and development servers."""

from __future__ import annotations

from tests.compat.programs.program import Program, Run

_FAMILY = "node"

PROGRAMS = (
    Program(
        name="node-http",
        family=_FAMILY,
        does="an HTTP server with a worker thread and a client on one open connection",
        start="node $INSIDE/server.js & patiently test -s port; exec python3 $INSIDE/client.py $(cat port)",
        ready="begun state",
        check=(
            Run(
                "curl -sf --max-time 30 http://127.0.0.1:$(cat port)/sums >sums || bad 'it does not answer'\n"
                'read -r rounds faults rest <sums; [ "$rounds" -gt 0 ] && [ "$faults" = 0 ] || bad "$(cat sums)"\n'
                "steady state"
            ),
        ),
        stack="node",
    ),
    Program(
        name="node-watch",
        family=_FAMILY,
        does="`node --watch`: a change of the file starts it anew",
        start='echo \'require("fs").writeFileSync("seen", "first"); setInterval(() => {}, 1000)\' > main.js\n'
        "exec node --watch main.js",
        ready="grep -q first seen",
        check=(
            Run(
                "sed -i s/first/second/ main.js; patiently grep -q second seen && ok 'started anew after the change' "
                '|| bad "the change was not seen; $(cat seen)"'
            ),
        ),
        stack="node",
    ),
    Program(
        name="vite",
        family=_FAMILY,
        does="a Vite dev server: a module changed afterwards is served as it is then",
        start="""
            [ -e node_modules ] || ln -s /opt/npm/node_modules node_modules
            echo '<script type="module" src="/main.js"></script>' > index.html
            echo 'import { word } from "./word.js"; document.title = word;' > main.js
            echo 'export const word = "before";' > word.js
            exec node node_modules/vite/bin/vite.js --host 127.0.0.1 --port 5199 --strictPort""",
        ready="curl -sf http://127.0.0.1:5199/main.js | grep -q word && curl -sf http://127.0.0.1:5199/word.js | grep before",
        check=(
            Run(
                "get() { curl -sf --max-time 30 http://127.0.0.1:5199/$1; }\n"
                "get word.js | grep -q before || bad 'what it has transformed is not served any more'\n"
                "sed -i s/before/after/ word.js\n"
                "changed() { get word.js | grep -q after; }\n"
                "patiently changed && get | grep -q @vite/client && ok 'serves the changed module' "
                '|| bad "the change was not seen: $(get word.js)"'
            ),
        ),
        stack="node",
    ),
)
