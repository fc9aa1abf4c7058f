"""Code by an unmodified async client: results, output, errors, contexts, and the ends of executions."""

import asyncio
import base64
import sys
import time
from collections.abc import Awaitable
from typing import Any

from e2b import NotFoundException, SandboxException, TimeoutException
from e2b_code_interpreter import AsyncSandbox

checks = 0


def check(*facts: Any) -> None:
    """Count facts, all of which hold."""
    global checks
    for fact in facts:
        assert fact, facts
        checks += 1


async def fails(kind: type[Exception], call: Awaitable[object], *words: str) -> None:
    """Check that a call fails in this way."""
    try:
        await call
    except kind as error:
        check(*(word in str(error) for word in words or ("",)))
    else:
        raise AssertionError(f"{kind.__name__} was expected")


async def text(sandbox: Any, code: str, **more: Any) -> Any:
    """Return the value of code as text."""
    done = await sandbox.run_code(code, **more)
    assert done.error is None, done.error
    return done.text


async def error(sandbox: Any, code: str, **more: Any) -> str:
    """Return the name of the error that code ends with."""
    done = await sandbox.run_code(code, **more)
    return str(done.error.name)


async def results(sandbox: Any) -> None:
    """Values, displays and state."""
    first = await sandbox.run_code("x = 20\nx + 1")
    check(first.text == "21", first.error is None, first.execution_count == 1)
    check(await text(sandbox, "x") == "20", await text(sandbox, "'a string'") == "a string")
    png = base64.b64encode(b"\x89PNG\r\n\x1a\n\x00").decode()
    shown = await sandbox.run_code(
        "import base64\nfrom IPython.display import HTML, Image, JSON, Markdown, display\n"
        f"display(Image(base64.b64decode('{png}')))\n"
        "display(HTML('<b>x</b>')); display(Markdown('# x')); display(JSON({'a': 1}))\n"
        "display({'application/x-own': 'y'}, raw=True)\nNone"
    )
    picture, page, marked, table, own = shown.results
    check(picture.png.strip() == png, picture.is_main_result is False, "png" in picture.formats())
    check(page.html == "<b>x</b>", marked.markdown == "# x", table.json == {"a": 1})
    check(own.extra == {"application/x-own": "y"}, shown.text is None)
    empty = await sandbox.run_code("")
    check(empty.results == [], empty.error is None)


async def output(sandbox: Any) -> None:
    """Both streams, and callbacks as they come."""
    seen: dict[str, list[Any]] = {"stdout": [], "stderr": [], "result": [], "error": []}
    began = time.time()
    done = await sandbox.run_code(
        "import sys, time\nfor n in range(3): print(n, flush=True); time.sleep(0.3)\n"
        "print('bad', file=sys.stderr)\ndisplay(7)\n1 / 0",
        on_stdout=lambda message: seen["stdout"].append((message.line, message.timestamp)),
        on_stderr=lambda message: seen["stderr"].append((message.line, message.error)),
        on_result=seen["result"].append,
        on_error=seen["error"].append,
    )
    check("".join(done.logs.stdout) == "0\n1\n2\n", done.logs.stderr == ["bad\n"])
    times = [stamp / 1e9 for _, stamp in seen["stdout"]]
    check(len(times) >= 3, times[-1] - times[0] > 0.4, began - 60 < times[0] < time.time() + 60)
    check(seen["stderr"] == [("bad\n", True)], [each.text for each in seen["result"]] == ["7"])
    check(done.error.name == "ZeroDivisionError", done.error.value == "division by zero")
    check("ZeroDivisionError" in done.error.traceback, seen["error"][0].name == done.error.name)
    check(await error(sandbox, "a b") == "SyntaxError")
    check(await error(sandbox, "input('name? ')") == "StdinNotImplementedError")


async def contexts(sandbox: Any) -> None:
    """Made, listed, used, restarted, removed."""
    made = await sandbox.create_code_context(cwd="/tmp", language="python")
    check(made.cwd == "/tmp", made.language == "python")
    known = await sandbox.list_code_contexts()
    check(made.id in [each.id for each in known], known[0].language == "python")
    check(await text(sandbox, "import os; y = 1; os.getcwd()", context=made) == "/tmp")
    check(await text(sandbox, "y", context=made) == "1", await error(sandbox, "y") == "NameError")
    await sandbox.restart_code_context(made)
    check(await error(sandbox, "y", context=made) == "NameError")
    await sandbox.remove_code_context(made)
    known = await sandbox.list_code_contexts()
    check(made.id not in [each.id for each in known])
    await fails(NotFoundException, sandbox.run_code("1", context=made), made.id)
    await fails(NotFoundException, sandbox.remove_code_context(made.id), made.id)
    await fails(SandboxException, sandbox.create_code_context(cwd="/no/such"), "400", "directory")


async def environment(sandbox: Any) -> None:
    """Variables of the sandbox, and of one execution."""
    look = "import os; (os.environ.get('WIDE'), os.environ.get('ONCE'))"
    check(await text(sandbox, look, envs={"ONCE": "b"}) == "('a', 'b')")
    check(await text(sandbox, look) == "('a', None)")
    check(await text(sandbox, look, envs={"WIDE": "c"}) == "('c', None)")
    check(await text(sandbox, look) == "('a', None)")


async def languages(sandbox: Any) -> None:
    """Each has its variables; one without a kernel is refused in a sentence."""
    check(await text(sandbox, "x", language="python") == "20")
    shown = await sandbox.run_code("echo $((6 * 7))", language="bash")
    check("".join(shown.logs.stdout).strip() == "42")
    await fails(SandboxException, sandbox.run_code("1", language="cobol"), "400", "a Jupyter kernel")
    await fails(SandboxException, sandbox.create_code_context(language="cobol"), "400", "a Jupyter kernel")
    check(await text(sandbox, "const n: number = 6 * 7; n", language="ts") == "42")
    check(await text(sandbox, "process.env.ONCE", language="js", envs={"ONCE": "b"}) == "b")
    check(await text(sandbox, "process.env.ONCE ?? process.env.WIDE", language="js") == "a")
    shown = await sandbox.run_code("Sys.getenv('WIDE')", language="r")
    check(shown.results[0].text.strip() == '[1] "a"')


async def endings(sandbox: Any) -> None:
    """A timeout is the client's: it leaves, and its code is interrupted."""
    await fails(TimeoutException, sandbox.run_code("import time; time.sleep(300)", timeout=2), "timed out")
    check(await text(sandbox, "1 + 1") == "2", await text(sandbox, "x") == "20")
    check(await text(sandbox, "import time; time.sleep(7); 'long'") == "long")


async def main() -> None:
    """Check all of it in one sandbox."""
    sandbox = await AsyncSandbox.create(timeout=300, envs={"WIDE": "a"})
    try:
        for each in (results, output, contexts, environment, languages, endings):
            await each(sandbox)
    finally:
        await sandbox.kill()
    sys.stdout.write(f"ok: {checks}\n")


asyncio.run(main())
