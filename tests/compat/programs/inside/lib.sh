# Functions for starts and checks of programs; read by bash before each of them.
# A check ends with ok or bad.
ok() { echo "ok: $*"; exit 0; }
bad() { echo "not ok: $*"; exit 0; }

# patiently COMMAND...: until it succeeds, for a minute at most.
patiently() {
    local tries=0
    until "$@" >/dev/null 2>&1; do
        tries=$((tries + 1))
        [ "$tries" -lt 1200 ] || return 1
        sleep 0.05
    done
}

# first FILE: the number a file begins with.
first() { local n; read -r n _ <"$1" 2>/dev/null && [ -n "$n" ] && echo "$n"; }

beyond() { [ "$(first "$1")" -gt "$2" ]; }

# grows FILE [BY]: the number at its beginning grows from its present value.
grows() {
    local now
    patiently first "$1" || return 1
    now=$(first "$1")
    patiently beyond "$1" $((now + ${2:-3}))
}

# steady FILE [BY]: it holds "ROUNDS FAULTS ..." and rounds are added without a fault.
steady() {
    local rounds faults rest
    grows "$1" "${2:-10}" || bad "stands still at: $(cat "$1" 2>&1)"
    read -r rounds faults rest <"$1"
    [ "$faults" = 0 ] || bad "$faults faults in $rounds rounds: $rest"
    ok "$rounds rounds without a fault $rest"
}

# running NAME...: a process of that command line is there.
running() { pgrep -f -- "$*" >/dev/null; }

# begun FILE: rounds are counted in it.
begun() { patiently beyond "$1" "${2:-2}"; }
