"""Programs that watch a project's files and act on changes: each with some hundred files."""

from __future__ import annotations

from tests.compat.programs.program import Program, Run

_FAMILY = "watching"

# 300 modules in 30 folders, each with a word.
_PROJECT = """
mkdir -p project; cd project
[ -e node_modules ] || ln -s /opt/npm/node_modules node_modules
for folder in $(seq 30); do
    mkdir -p src/$folder
    for file in $(seq 10); do
        echo "module.exports = /** @type {const} */ ('word $folder $file');" > src/$folder/$file.js
    done
done
"""
# Each line of `acts` is one action of the program. It has settled when it has acted, and not again for
# two seconds: some check files once more that are as new as they are themselves.
_SETTLED = 'n=$(wc -l <acts) && [ "$n" -gt 0 ] && sleep 2 && [ "$n" = "$(wc -l <acts)" ] && echo $n >settled'
_CHECK = """
[ "$(wc -l <acts)" = "$(cat settled)" ] || bad "it was woken: $(tail -3 acts | tr "\\n" " ")"
sed -i s/word/changed/ project/src/MODULE.js
acted() { tail -n +$(($(cat settled) + 1)) acts | grep -q "changed WORDS"; }
patiently acted && ok 'was not woken by the capture, acts on a change' || bad "the change was not seen: $(tail -3 acts | tr "\\n" " ")"
"""


def _watching(name: str, does: str, module: str, start: str) -> Program:
    """Return a program that appends a module's word to `../acts` when that module was changed."""
    return Program(
        name=name,
        family=_FAMILY,
        does=does,
        start=f"{_PROJECT}{start}",
        ready=_SETTLED,
        check=(Run(_CHECK.replace("MODULE", module).replace("WORDS", module.replace("/", " "))),),
        stack="node",
    )


PROGRAMS = (
    _watching(
        "nodemon",
        "nodemon on a project of 300 files: a change starts the program anew",
        "7/7",
        """
        echo 'require("fs").appendFileSync("../acts", require("./src/7/7.js") + "\\n");' \\
            'setInterval(() => {}, 1000)' > main.js
        exec node node_modules/nodemon/bin/nodemon.js --watch src main.js""",
    ),
    _watching(
        "webpack-watch",
        "`webpack --watch` on a project of 300 modules: a change is in what it builds",
        "30/1",
        """
        for folder in $(seq 30); do
            for file in $(seq 10); do echo "console.log(require('./src/$folder/$file.js'));"; done
        done > main.js
        cat > webpack.config.js <<'END'
const {appendFileSync, readFileSync} = require("fs");
const built = () => readFileSync("dist/main.js", "utf8").match(/\\w+ 30 1(?=')/)[0];
const done = (compiler) => compiler.hooks.done.tap("acts", (stats) =>
    appendFileSync("../acts", (stats.hasErrors() ? "errors" : built()) + "\\n"));
module.exports = {
    mode: "development", devtool: false, entry: "./main.js", plugins: [{apply: done}],
    output: {path: process.cwd() + "/dist"},
};
END
        exec node node_modules/webpack/bin/webpack.js --watch""",
    ),
    _watching(
        "jest-watch",
        "`jest --watchAll` on a project of 300 modules and a test: a change runs the test again",
        "12/3",
        """
        cat > word.test.js <<'END'
const word = require("./src/12/3.js");
test("word", () => { require("fs").appendFileSync("../acts", word + "\\n"); });
END
        echo '{}' > package.json
        exec node node_modules/jest/bin/jest.js --watchAll --runInBand --no-cache""",
    ),
    _watching(
        "parcel-watcher",
        "@parcel/watcher, by which editors watch folders, on a project of 300 files: tells what changed",
        "21/4",
        """
        cat > main.js <<'END'
const {appendFileSync, existsSync, readFileSync} = require("fs");
const say = (text) => appendFileSync("../acts", text + "\\n");
const told = ({type, path}) => `${type} ${path} ${existsSync(path) ? readFileSync(path) : ""}`;
require("@parcel/watcher").subscribe(process.cwd() + "/src", (error, events) =>
    say(error ? String(error) : events.map(told).join("\\n"))
).then(() => say("begun"));
END
        exec node main.js""",
    ),
    _watching(
        "tsserver",
        "TypeScript's language server, as editors run it, on a project of 300 modules: tells a type that changed",
        "16/5",
        """
        echo '{"include": ["main.js", "src"]}' > jsconfig.json
        printf 'const word = require("./src/16/5.js");\\nconst found = word;\\n' > main.js
        cat > editor.js <<'END'
const server = require("child_process").spawn(
    "node", ["node_modules/typescript/lib/tsserver.js", "--disableAutomaticTypingAcquisition"],
    {stdio: ["pipe", "pipe", "inherit"]});
let seq = 0;
const ask = (command, place) => server.stdin.write(JSON.stringify(
    {seq: ++seq, type: "request", command, arguments: {file: process.cwd() + "/main.js", ...place}}) + "\\n");
const hover = () => ask("quickinfo", {line: 2, offset: 7});
require("readline").createInterface({input: server.stdout}).on("line", (line) => {
    const said = line.startsWith("{") ? JSON.parse(line) : {};
    if (said.event === "projectsUpdatedInBackground") hover();
    if (said.command === "quickinfo")
        require("fs").appendFileSync("../acts", (said.body?.displayString ?? line) + "\\n");
});
ask("open");
hover();
END
        exec node editor.js""",
    ),
)
