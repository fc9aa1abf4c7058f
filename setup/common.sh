# Shared by the scripts of this folder: how they speak, and how they install what a Debian system lacks.
# shellcheck shell=sh

say() { printf '%s: %s\n' "${part:?}" "$*"; }

# One line that says what cannot be done and what to do about it; then the end.
die() {
    printf '%s: %s\n' "${part:?}" "$*" >&2
    exit 1
}

is_root() { [ "$(id -u)" -eq 0 ]; }
is_debian_family() { command -v apt-get >/dev/null 2>&1; }

# Installs packages; quiet unless it fails, because apt says too much to be read.
apt_install() {
    apt_log=$(mktemp)
    # The lock is waited for: a fresh machine may still be updating itself.
    if ! { apt-get -o DPkg::Lock::Timeout=300 update &&
        DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 \
            install -y --no-install-recommends "$@"; } >"$apt_log" 2>&1 </dev/null; then
        tail -n 15 "$apt_log" >&2
        rm -f "$apt_log"
        die "cannot install $*: apt-get failed (its last lines are above)"
    fi
    rm -f "$apt_log"
}

# Runs a command that needs the network up to three times: a registry that is slow or busy now may answer in a minute.
patiently() {
    for pause in 15 45; do
        if "$@"; then
            return 0
        fi
        say "trying once more in $pause s"
        sleep "$pause"
    done
    "$@"
}
