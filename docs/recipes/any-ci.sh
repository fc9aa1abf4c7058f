#!/bin/sh
# Runs the job of any CI system in a session, and keeps it alive if it fails.
#
#   any-ci.sh COMMAND [ARGUMENT...]         in the checkout, such as: any-ci.sh pytest --holdfast
#
#   HOLDFAST_OUT      where what was captured and the summary go (../holdfast-out); have your CI keep this folder
#   HOLDFAST_REF      instead of files: where to push it, such as registry.example.com/ci/app:$BUILD_NUMBER
#   HOLDFAST_SETUP    a command that prepares the session, such as: pip install -e '.[test]'
#   HOLDFAST_ENV      variables that the job needs, names separated by spaces; `NAME*` for several
#   HOLDFAST_LIMIT    how long all of it may take (30m)
#   HOLDFAST_KEYS     who signs: `tar -czC HOME keys | base64 -w0` of a home in which `holdfast key new` was run;
#                     keep it as a secret. Without it a fresh machine makes a key for each job, which its log
#                     names: whoever thaws must trust that one, or take the files only.
#   HOLDFAST_CHECK    anything: first try out whether this machine allows what is needed
#
# The exit code is the command's; 124 if it took too long or did nothing any more, 75 if it waited for input.
set -eu

out=${HOLDFAST_OUT:-../holdfast-out}
home=${HOLDFAST_HOME:-${XDG_STATE_HOME:-$HOME/.local/state}/holdfast}
mkdir -p "$out"

if [ -n "${HOLDFAST_KEYS:-}" ] && [ ! -e "$home/keys" ]; then
    mkdir -p -m 700 "$home"
    printf '%s' "$HOLDFAST_KEYS" | base64 -d | tar -xzC "$home" keys
fi

# 3 says that jobs run here, but cannot be captured alive: then their files are kept.
if [ -n "${HOLDFAST_CHECK:-}" ]; then
    holdfast doctor --ci >&2 || [ $? -eq 3 ]
fi

# Options go in front of the command, one after the other.
set -- -- "$@"
set -f
for name in ${HOLDFAST_ENV:-}; do set -- --env "$name" "$@"; done
if [ -n "${HOLDFAST_SETUP:-}" ]; then set -- --setup "$HOLDFAST_SETUP" "$@"; fi
if [ -n "${HOLDFAST_REF:-}" ]; then set -- --push "$HOLDFAST_REF" "$@"; else set -- --export "$out" "$@"; fi
exec holdfast ci run --timeout "${HOLDFAST_LIMIT:-30m}" --fallback files --summary "$out/summary.md" "$@"
