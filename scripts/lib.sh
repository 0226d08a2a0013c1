# What the set-up scripts share: one way to fail, one way to run something that Ctrl-C must take down too.
# Sourced, never run.

fail() {
    echo "hwmark: $*" >&2
    exit 1
}

is_root() {
    [ "$(id -u)" = 0 ]
}

child=

# A shell that waits for a foreground command dies before it: the command would live on. So the command runs in the
# background, leading a process group (python -m venv, for one, starts others), and the trap passes the signal on to all of
# it and waits.
run() {
    setsid "$@" &
    child=$!
    status=0
    wait "$child" || status=$?
    child=
    return "$status"
}

stop() {
    trap '' INT TERM HUP
    if [ -n "$child" ]; then
        # The group exists a moment later than the command.
        kill -s TERM -- "-$child" 2>/dev/null || kill "$child" 2>/dev/null || true
        wait "$child" 2>/dev/null || true
    fi
    exit 130
}
trap stop INT TERM HUP

apt_install() {
    run apt-get update -qq &&
        run env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
}
