"""The startup files of each kind of shell: it reads its user's settings, and then writes marks.

Owns the arguments, variables and files that a kind of shell needs, with the text of those files. The marks
and the files in the folder `control` are described in `images/session/bash_marks.c`.

zsh reads a command by `.` from the file `text`, so it is one line to zsh, whatever is in it. Its end is
marked by an `always` block on that same line, which nothing that a user sets can take away; typed commands
are marked by hooks, and each of them restores the others. fish reads a command by `source` from that file,
between two calls that mark its begin and its end on the same line; typed commands are marked by events.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from holdfast.runtime.guest.layout import ShellPaths
from holdfast.runtime.guest.shells.shell_program import ShellKind, ShellProgram

ZSH_ENVIRONMENT = """\
# Read by the session's zsh before anything else of its user's, whose folder may be in a variable.
typeset -g _holdfast_here=$ZDOTDIR
if [[ -n ${HOLDFAST_ZDOTDIR-} ]]; then ZDOTDIR=$HOLDFAST_ZDOTDIR; else unset ZDOTDIR; fi
unset HOLDFAST_ZDOTDIR
[[ -r ${ZDOTDIR:-$HOME}/.zshenv ]] && . "${ZDOTDIR:-$HOME}/.zshenv"
typeset -g _holdfast_theirs=${ZDOTDIR-}
typeset -g ZDOTDIR=$_holdfast_here
'builtin' 'setopt' rcs
"""

ZSH_SETTINGS = """\
# Read by the session's zsh instead of its user's file, which comes first.
if [[ -n $_holdfast_theirs ]]; then ZDOTDIR=$_holdfast_theirs; else unset ZDOTDIR; fi
unset _holdfast_theirs
[[ -r ${ZDOTDIR:-$HOME}/.zshrc ]] && . "${ZDOTDIR:-$HOME}/.zshrc"
# What ends an unfinished line is printed by the hooks, after the mark of the command's end.
typeset -g _holdfast_ends_lines=${options[promptsp]}
'builtin' 'setopt' zle nopromptsp
'builtin' 'emulate' -R zsh -o no_aliases -c "'builtin' . '$_holdfast_here/marks.zsh'"
unset _holdfast_here
_holdfast_begin
"""

ZSH_MARKS = r"""
# Functions of the session. They run with zsh's own options, whatever the user sets.
typeset -g _holdfast_folder='@CONTROL@' _holdfast_nonce='' _holdfast_serial='' _holdfast_shown=''
typeset -gi _holdfast_number=0 _holdfast_tty=-1 _holdfast_pending=1 _holdfast_first=1 _holdfast_status=0
typeset -g _holdfast_own='(OLDPWD|HOLDFAST_(SESSION|NAME|GENERATION|IDENTITY|SHELL))'
typeset -gi _holdfast_inside=0 _holdfast_generation=-1

_holdfast_slurp() {  # into REPLY
    REPLY=''
    [[ -f $1 && -r $1 ]] && REPLY=$(<$1)
}

_holdfast_mark() {  # kind status serial
    local text=$'\e]133;'$1${2:+;$2}";hf=$_holdfast_nonce;n=$_holdfast_number"${3:+;x=$3}
    local -a now
    _holdfast_number+=1
    if [[ $1 == C ]]; then
        now=($epochtime)
        text+=";t=${now[1]}${(l:6::0:)$(( now[2] / 1000 ))}"
    fi
    builtin print -rnu $_holdfast_tty -- $text$'\a'
}

# The identity of the session: it differs in a copy (images/session/bash_self.h).
_holdfast_self() {
    local REPLY each name
    _holdfast_slurp $_holdfast_folder/../../../identity/generation
    [[ $REPLY == <-> && $REPLY != $_holdfast_generation ]] || return 0
    (( _holdfast_generation >= 0 )) && RANDOM=$(( epochtime[2] ^ $$ ))  # copies would draw the same
    _holdfast_generation=$REPLY
    _holdfast_slurp $_holdfast_folder/../../../identity/variables
    for each in ${(0)REPLY}; do
        name=${each%%=*}
        [[ ${(Pt)name} == scalar*-export* && ${(Pt)name} != *readonly* ]] && typeset -gx "$name=${each#*=}"
    done
    return 0
}

# What the shell holds, for those who start programs as it would (runtime/guest/shells/shell_state.py).
_holdfast_state() {
    local REPLY name kind value
    local -a fields
    # Not $(umask), which would be a process more at each prompt.
    { builtin umask >| $_holdfast_folder/umask && _holdfast_slurp $_holdfast_folder/umask } 2>/dev/null
    fields=(holdfast 1 '' 0: "=$$" c '' '' 0: "=$PWD" u '' '' 0: "=$REPLY")
    for name kind in ${(kv)parameters}; do
        [[ $kind == scalar*-export* && $name != $~_holdfast_own ]] || continue
        value=${(P)name}
        (( $#value <= 65536 )) && fields+=(v $name x ${#value}: "=$value")
    done
    for name value in ${(kv)aliases}; do
        fields+=(l $name '' ${#value}: "=$value")
    done
    fields+=(end $(( $#fields / 5 - 1 )) '' 0: '')
    {
        builtin print -rN -- "${(@)fields}" >| $_holdfast_folder/state.new &&
            builtin zf_mv -f $_holdfast_folder/state.new $_holdfast_folder/state
        # The first stays beside it: a late reader finds what changed since.
        (( _holdfast_first )) && builtin print -rN -- "${(@)fields}" >| $_holdfast_folder/state.first
    } 2>/dev/null
    return 0
}

# The command is over: in the `always` block after it, where $? is its status.
_holdfast_end() {
    _holdfast_status=$?
    (( TRY_BLOCK_INTERRUPT > 0 && ! _holdfast_status )) && _holdfast_status=130
    _holdfast_pending=0
    _holdfast_state
    _holdfast_mark E $(( _holdfast_status & 255 )) $_holdfast_serial
    _holdfast_serial=''
    _holdfast_hooks
}

_holdfast_precmd() {
    local -i last=$?
    _holdfast_serial=''
    if (( _holdfast_pending )); then
        _holdfast_status=$(( _holdfast_first ? 0 : last & 255 ))
        _holdfast_pending=0
        _holdfast_state
        _holdfast_first=0
        _holdfast_mark D $_holdfast_status
    fi
    if [[ $_holdfast_ends_lines == on ]]; then
        builtin print -nPu $_holdfast_tty -- "${PROMPT_EOL_MARK-%B%S%#%s%b}"
        builtin print -rnu $_holdfast_tty -- "${(l:COLUMNS-1:: :)}"$'\r \r'
    fi
    _holdfast_mark A $_holdfast_status
    _holdfast_hooks
    return 0
}

# What a person typed, for the journal: the mark that follows names the file by its number.
_holdfast_preexec() {
    _holdfast_self
    _holdfast_hooks
    [[ -n $_holdfast_serial ]] && return 0
    _holdfast_pending=1
    (( $#1 )) && builtin print -rn -- "${1[1,65536]}" 2>/dev/null >| $_holdfast_folder/typed-$_holdfast_number
    _holdfast_mark C
    return 0
}

# A command of ours is in the history as it was given.
_holdfast_zshaddhistory() {
    [[ -n $_holdfast_serial ]] || return 0
    local REPLY
    (( $#_holdfast_shown <= 2048 )) && builtin print -rs -- "$_holdfast_shown"
    return 1
}

_holdfast_line_init() {
    (( _holdfast_inside )) && return 0
    _holdfast_inside=1
    (( ${+widgets[_holdfast_their_init]} )) && builtin zle _holdfast_their_init -- "$@"
    _holdfast_inside=0
    if [[ $CONTEXT == start ]]; then
        _holdfast_keys
        _holdfast_mark B $_holdfast_status
    elif [[ $CONTEXT == cont ]]; then
        _holdfast_mark S
    fi
    return 0
}

# Shows the first lines of the command where a person would have typed it, and then has it read from its file.
_holdfast_take() {
    local REPLY file=$_holdfast_folder/command-$KEYS[-2]
    [[ $CONTEXT == start && -f $file ]] || return 0  # it is the key of an earlier offer
    _holdfast_slurp $file
    builtin zf_rm $file 2>/dev/null || return 0  # it was withdrawn just now
    _holdfast_serial=${REPLY%%$'\n'*}
    _holdfast_shown=${REPLY#*$'\n'}
    BUFFER=${_holdfast_shown//[^[:print:]$'\n\t']/?}
    CURSOR=$#BUFFER
    POSTDISPLAY='' PREDISPLAY=''
    builtin zle -A zle-line-finish _holdfast_their_finish 2>/dev/null
    builtin zle -N zle-line-finish _holdfast_line_finish
    builtin zle .accept-line
}

_holdfast_line_finish() {
    if (( ${+widgets[_holdfast_their_finish]} )); then
        builtin zle -A _holdfast_their_finish zle-line-finish
        builtin zle -D _holdfast_their_finish
        builtin zle zle-line-finish -- "$@"
    else
        builtin zle -D zle-line-finish
    fi
    builtin zle -I
    BUFFER=" { 'builtin' '.' '$_holdfast_folder/text'; } always { _holdfast_end; }"
    _holdfast_self
    _holdfast_pending=1
    _holdfast_mark C '' $_holdfast_serial
    return 0
}

_holdfast_nothing() { }

_holdfast_keys() {
    local map
    builtin zle -N _holdfast_take
    builtin zle -N _holdfast_nothing
    for map in main vicmd; do
        builtin bindkey -M $map '\e[9517~' _holdfast_take '\e[9518~' _holdfast_take
        builtin bindkey -M $map '\e[201~' _holdfast_nothing  # the end of a paste that has not begun
    done
}

_holdfast_hooks() {
    local hook ours list
    for hook in precmd preexec zshaddhistory; do
        ours=_holdfast_$hook list=${hook}_functions
        [[ ${${(P)list}[1]-} == $ours ]] || set -A $list $ours ${${(P)list}:#$ours}
    done
    if [[ ${widgets[zle-line-init]-} != user:_holdfast_line_init ]]; then
        builtin zle -A zle-line-init _holdfast_their_init 2>/dev/null
        builtin zle -N zle-line-init _holdfast_line_init
    fi
    return 0
}

_holdfast_begin() {
    local REPLY
    _holdfast_slurp $_holdfast_folder/pid
    [[ $REPLY == $$ ]] || return 0
    builtin zmodload zsh/system zsh/datetime zsh/parameter zsh/zleparameter || return 0
    builtin zmodload -F zsh/files b:zf_mv b:zf_rm || return 0
    _holdfast_slurp $_holdfast_folder/nonce
    _holdfast_nonce=$REPLY
    _holdfast_slurp $_holdfast_folder/epoch
    builtin print -r -- $(( REPLY + 1 )) >| $_holdfast_folder/epoch
    _holdfast_number=$(( (REPLY + 1) << 32 ))
    builtin sysopen -w -o cloexec -u _holdfast_tty /dev/tty || return 0
    _holdfast_self
    _holdfast_keys
    _holdfast_hooks
}
"""


FISH_MARKS = r"""
# Functions of the session.
set -g _holdfast_folder '@CONTROL@'
set -g _holdfast_text $_holdfast_folder/text
set -g _holdfast_serial ''
set -g _holdfast_shown ''
set -g _holdfast_number 0
set -g _holdfast_pending 1
set -g _holdfast_status 0
set -g _holdfast_first 1
set -g _holdfast_own '^HOLDFAST_(SESSION|NAME|GENERATION|IDENTITY|SHELL)$'
set -g _holdfast_generation ''
for each in (command -s rm) /usr/bin/rm /bin/rm
    test -x $each; and set -g _holdfast_rm $each
end

function _holdfast_mark -a kind result serial
    set -l text "133;$kind"
    test -n "$result"; and set text "$text;$result"
    set text "$text;hf=$_holdfast_nonce;n=$_holdfast_number"
    test -n "$serial"; and set text "$text;x=$serial"
    set -g _holdfast_number (math $_holdfast_number + 1)
    builtin printf '\e]%s\a' $text >/dev/tty
end

# The identity of the session: it differs in a copy (images/session/bash_self.h).
function _holdfast_self
    set -l folder $_holdfast_folder/../../../identity
    set -l now
    test -r $folder/generation; and read now <$folder/generation
    test -n "$now" -a "$now" != "$_holdfast_generation"; or return 0
    if test -n "$_holdfast_generation" # copies would draw the same random numbers
        read -l drawn </proc/sys/kernel/random/uuid
        random (string sub -l 9 1(string replace -ra '[^0-9]' '' $drawn))
    end
    set -g _holdfast_generation $now
    for each in (string split0 <$folder/variables)
        set -l parts (string split -m 1 = -- $each)
        set -qgx $parts[1]; and set -gx $parts[1] $parts[2]
    end
    return 0
end

# What the shell holds, for those who start programs as it would (runtime/guest/shells/shell_state.py).
function _holdfast_state
    set -l fields holdfast 1 '' 0: "=$fish_pid" c '' '' 0: "=$PWD"
    for each in (set --export --names | string match -rv $_holdfast_own)
        set -l value "$$each"
        test (string length -- "$value") -le 65536
        and set -a fields v $each x (string length -- "$value"): "=$value"
    end
    set -a fields end (math (count $fields) / 5 - 1) '' 0: ''
    builtin printf '%s\0' $fields >$_holdfast_folder/state 2>/dev/null
    # The first stays beside it: a late reader finds what changed since.
    if test $_holdfast_first = 1
        set -g _holdfast_first 0
        builtin printf '%s\0' $fields >$_holdfast_folder/state.first 2>/dev/null
    end
end

function _holdfast_keys
    for mode in default insert visual
        if string match -q '3.*' -- $version # reads what a terminal sends, not what key it means
            bind -M $mode \e\[9517\;7u '_holdfast_take 7'
            bind -M $mode \e\[9518\;7u '_holdfast_take 8'
        else
            bind -M $mode ctrl-alt-\u252d '_holdfast_take 7'
            bind -M $mode ctrl-alt-\u252e '_holdfast_take 8'
        end
        bind -M $mode \e\[201~ true # the end of a paste that has not begun
    end
end

function _holdfast_take -a key
    set -l file $_holdfast_folder/command-$key
    test -f $file; or return 0 # it is the key of an earlier offer
    read -lz found <$file
    set -l lines (string split -m 1 \n -- $found)
    $_holdfast_rm $file 2>/dev/null; or return 0 # it was withdrawn just now
    set -g _holdfast_serial $lines[1]
    set -g _holdfast_shown $lines[2]
    commandline -r -- ' _holdfast_begin; source $_holdfast_text; _holdfast_end'
    commandline -f execute
end

function _holdfast_begin
    set -l last $_holdfast_status
    set -l lines (string split \n -- $_holdfast_shown)
    builtin printf '%s\n' (string replace -ra '[[:cntrl:]]' '?' -- $lines) >/dev/tty
    _holdfast_self
    set -g _holdfast_pending 1
    _holdfast_mark C '' $_holdfast_serial
    return $last
end

function _holdfast_end
    set -g _holdfast_status $status
    set -g _holdfast_pending 0
    _holdfast_state
    _holdfast_mark E $_holdfast_status $_holdfast_serial
    set -g _holdfast_serial ''
    return $_holdfast_status
end

function _holdfast_typed --on-event fish_preexec
    test -n "$_holdfast_serial"; and return 0
    set -g _holdfast_pending 1
    _holdfast_self
    set -l file $_holdfast_folder/typed-$_holdfast_number
    builtin printf '%s' (string sub -l 65536 -- "$argv") >$file 2>/dev/null
    _holdfast_mark C
end

function _holdfast_done --on-event fish_postexec
    set -l last $status
    test $_holdfast_pending = 1; or return 0
    if test -n "$_holdfast_serial" -a $last = 0 # it was cut short
        set last 130
    end
    set -g _holdfast_serial ''
    set -g _holdfast_status $last
    set -g _holdfast_pending 0
    _holdfast_state
    _holdfast_mark D $last
end

function _holdfast_prompt --on-event fish_prompt
    if test $_holdfast_pending = 1
        set -g _holdfast_pending 0
        _holdfast_state
        _holdfast_mark D $_holdfast_status
    end
    set -g _holdfast_serial ''
    _holdfast_keys
    _holdfast_mark A $_holdfast_status
    _holdfast_mark B $_holdfast_status
end

read -l _holdfast_owner <$_holdfast_folder/pid
if test "$_holdfast_owner" = $fish_pid
    read -g _holdfast_nonce <$_holdfast_folder/nonce
    read -l epoch <$_holdfast_folder/epoch
    math $epoch + 1 >$_holdfast_folder/epoch
    set -g _holdfast_number (math "($epoch + 1) * 4294967296")
    _holdfast_self
else
    functions -e _holdfast_typed _holdfast_done _holdfast_prompt
end
"""


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
    # few sessions need them

    if program.kind is ShellKind.FISH:
        paths.fish.write_text(FISH_MARKS.replace("@CONTROL@", str(paths.control)))
        return
    paths.zsh.mkdir(exist_ok=True)
    (paths.zsh / ".zshenv").write_text(ZSH_ENVIRONMENT)
    (paths.zsh / ".zshrc").write_text(ZSH_SETTINGS)
    (paths.zsh / "marks.zsh").write_text(ZSH_MARKS.replace("@CONTROL@", str(paths.control)))


def prepare(program: ShellProgram, paths: ShellPaths, env: dict[str, str]) -> None:
    """Change the shell's initial variables to the ones it needs."""
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
