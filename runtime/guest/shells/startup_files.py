"""What each kind of shell is given when it starts: it reads its user's settings, and then writes marks.

Owns the arguments, variables and files that a kind of shell needs. How the marks are written is the business
of `images/session/bash_marks.c`, `zsh_startup` and `fish_startup`.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from holdfast.runtime.guest.layout import ShellPaths
from holdfast.runtime.guest.shells.shell_program import ShellKind, ShellProgram

SETTINGS = {
    ShellKind.BASH: "~/.bashrc",
    ShellKind.ZSH: "~/.zshrc",
    ShellKind.FISH: "~/.config/fish/config.fish",
}
"""The user's settings, as people know them."""


def write(program: ShellProgram, paths: ShellPaths, marks: Path) -> None:
    """Write the files that the shell reads; its user cannot change them.

    Raises:
        OSError: they cannot be written.
    """
    if program.kind is ShellKind.BASH:
        paths.rcfile.write_text(_bash(marks, paths.control))
        return
    from holdfast.runtime.guest.shells import fish_startup, zsh_startup  # few sessions need them

    if program.kind is ShellKind.FISH:
        paths.fish.write_text(fish_startup.MARKS.replace("@CONTROL@", str(paths.control)))
        return
    paths.zsh.mkdir(exist_ok=True)
    (paths.zsh / ".zshenv").write_text(zsh_startup.ENVIRONMENT)
    (paths.zsh / ".zshrc").write_text(zsh_startup.SETTINGS)
    (paths.zsh / "marks.zsh").write_text(zsh_startup.MARKS.replace("@CONTROL@", str(paths.control)))


def prepare(program: ShellProgram, paths: ShellPaths, env: dict[str, str]) -> None:
    """Change the variables that the shell begins with to those it needs."""
    if program.kind is ShellKind.ZSH:
        if theirs := env.get("ZDOTDIR"):
            env["HOLDFAST_ZDOTDIR"] = theirs
        env["ZDOTDIR"] = str(paths.zsh)


def words(program: ShellProgram, paths: ShellPaths) -> list[str]:
    """Return the words of the shell's command line."""
    if program.kind is ShellKind.BASH:
        return [program.path, "--rcfile", str(paths.rcfile)]
    if program.kind is ShellKind.ZSH:
        return [program.path, "-i"]
    # Fish 4 would wait for a terminal that answers questions; older ones know no such feature.
    source = f"source {shlex.quote(str(paths.fish))}"
    return [program.path, "--features", "no-query-term", "--init-command", source]


def _bash(library: Path, control: Path) -> str:
    path, folder = shlex.quote(str(library)), shlex.quote(str(control))
    return (
        "# Read by the session's shell when it starts. The user's settings come last: they could take the\n"
        "# names of these builtins, but not what has been loaded.\n"
        f"builtin enable holdfast_marks 2>/dev/null || builtin enable -f {path} holdfast_marks\n"
        f"builtin holdfast_marks {folder}\n"
        "[ -r ~/.bashrc ] && . ~/.bashrc\n"
        "(exit 0)\n"
    )
