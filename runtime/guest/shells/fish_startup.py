"""What fish reads when it starts in a session, after its user's own files: functions that write marks.

Owns the text of that file, which `startup_files` writes. The marks and the files in the folder `control` are
those of `images/session/bash_marks.c`. A command is read by `source` from the file `text`, between two calls
that mark its begin and its end on the same line. What a person types is marked by events.
"""

from __future__ import annotations

MARKS = r"""
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
