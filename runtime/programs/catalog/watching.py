"""What looks at a project's files all the time, and acts when one changes: each with some hundred files."""

from __future__ import annotations

from holdfast.runtime.programs.program import Program, Run

_FAMILY = "watching"

# 300 modules in 30 folders, each with a word.
_PROJECT = """
[ -e node_modules ] || ln -s /opt/npm/node_modules node_modules
for folder in $(seq 30); do
    mkdir -p src/$folder
    for file in $(seq 10); do echo "module.exports = 'word $folder $file';" > src/$folder/$file.js; done
done
"""
# Each line of `acts` is one time that the program acted. It has settled when it has acted, and not again for
# two seconds: some look once more at files that are as new as they are themselves.
_SETTLED = 'n=$(wc -l <acts) && [ "$n" -gt 0 ] && sleep 2 && [ "$n" = "$(wc -l <acts)" ] && echo $n >settled'
_CHECK = """
[ "$(wc -l <acts)" = "$(cat settled)" ] || bad "it was woken: $(tail -3 acts | tr "\\n" " ")"
{change}
acted() {{ [ "$(wc -l <acts)" -gt "$(cat settled)" ] && {proof}; }}
patiently acted && ok 'was not woken by the capture, acts on a change' || bad "the change was not seen: $(tail -3 acts | tr "\\n" " ")"
"""


def _check(change: str, proof: str) -> tuple[Run]:
    return (Run(_CHECK.format(change=change, proof=proof)),)


PROGRAMS = (
    Program(
        name="nodemon",
        family=_FAMILY,
        does="nodemon on a project of 300 files: a change starts the program anew",
        start=f"""{_PROJECT}
            echo 'require("fs").appendFileSync("acts", require("./src/7/7.js") + "\\n");' \\
                'setInterval(() => {{}}, 1000)' > main.js
            exec node node_modules/nodemon/bin/nodemon.js --watch src main.js""",
        ready=_SETTLED,
        check=_check("sed -i s/word/changed/ src/7/7.js", "tail -1 acts | grep -q changed"),
        stack="node",
    ),
    Program(
        name="webpack-watch",
        family=_FAMILY,
        does="`webpack --watch` on a project of 300 modules: a change is in what it builds",
        start=f"""{_PROJECT}
            for folder in $(seq 30); do
                for file in $(seq 10); do echo "console.log(require('./src/$folder/$file.js'));"; done
            done > main.js
            cat > webpack.config.js <<'END'
const done = (compiler) => compiler.hooks.done.tap("acts", (stats) =>
    require("fs").appendFileSync("acts", (stats.hasErrors() ? "errors" : "built") + "\\n"));
module.exports = {{
    mode: "development", devtool: false, entry: "./main.js", plugins: [{{apply: done}}],
    output: {{path: process.cwd() + "/dist"}},
}};
END
            exec node node_modules/webpack/bin/webpack.js --watch""",
        ready=_SETTLED,
        check=_check("sed -i s/word/changed/ src/30/1.js", "grep -q 'changed 30 1' dist/main.js"),
        stack="node",
    ),
    Program(
        name="jest-watch",
        family=_FAMILY,
        does="`jest --watchAll` on a project of 300 modules and a test: a change runs the test again",
        start=f"""mkdir -p project; cd project
            {_PROJECT}
            cat > word.test.js <<'END'
const word = require("./src/12/3.js");
test("word", () => {{ require("fs").appendFileSync("../acts", word + "\\n"); }});
END
            echo '{{}}' > package.json
            exec node node_modules/jest/bin/jest.js --watchAll --runInBand --no-cache""",
        ready=_SETTLED,
        check=_check("sed -i s/word/changed/ project/src/12/3.js", "tail -1 acts | grep -q changed"),
        stack="node",
    ),
    Program(
        name="parcel-watcher",
        family=_FAMILY,
        does="@parcel/watcher, by which editors watch folders, on a project of 300 files: tells what changed",
        start=f"""{_PROJECT}
            cat > main.js <<'END'
const say = (text) => require("fs").appendFileSync("acts", text + "\\n");
require("@parcel/watcher").subscribe(process.cwd() + "/src", (error, events) =>
    say(error ? String(error) : events.map((one) => one.type + " " + one.path).join("\\n"))
).then(() => say("begun"));
END
            exec node main.js""",
        ready=_SETTLED,
        check=_check("sed -i s/word/changed/ src/21/4.js", "tail -2 acts | grep -q 'src/21/4.js'"),
        stack="node",
    ),
)
