#!/bin/sh
# Runs `holdfast serve` in a container beside the engine, on a machine that needs nothing but Docker.
#
#   server-container.sh IMAGE [OPTION OF SERVE...]
#
#   IMAGE            the last line of `holdfast image build session toolbox controller`, with an engine here or elsewhere
#   HOLDFAST_HOME    where the state is kept (/var/lib/holdfast); only root reaches it, and it has the token
#   HOLDFAST_NAME    the name of the container (holdfast-server); one that exists is replaced, sessions do not notice
#   HOLDFAST_SOCKET  the engine's socket (/var/run/docker.sock)
#   HOLDFAST_TOKEN, HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY   are passed on
#
# It prints where it serves: at port 8420 of this machine's loopback, unless an option says otherwise, such as
# `--listen 9000`, or `--unix PATH` with a path in the home.
set -eu

[ $# -ge 1 ] || { echo "cannot start the server: no image; see the first lines of $0" >&2; exit 2; }
image=$1
shift
home=${HOLDFAST_HOME:-/var/lib/holdfast}
name=${HOLDFAST_NAME:-holdfast-server}
socket=${HOLDFAST_SOCKET:-/var/run/docker.sock}
docker image inspect "$image" >/dev/null || { echo "cannot start the server: this engine does not have $image" >&2; exit 1; }

# Options go in front of the command, the last ones first.
set -- "$image" holdfast serve "$@"
# The engine mounts parts of the home into sessions: it must be at one path for both. Mounts that are made for sessions
# are seen by the server where this machine's mounts spread, as systemd has it.
mkdir -p -m 700 "$home"
case $(findmnt -no PROPAGATION -T "$home") in
    *shared*) set -- --volume "$home:$home:rw,rslave" "$@" ;;
    *) set -- --volume "$home:$home" "$@" ;;
esac
# Layers are read where the engine keeps them: drift, diff and exports are faster then. Without the mounts below it, which
# would hold what the engine has unmounted.
case $(docker version --format '{{.Client.Version}}') in
    19.* | 20.* | 23.* | 24.*) alone=bind-nonrecursive=true ;;
    *) alone=bind-recursive=disabled ;;
esac
root=$(docker info --format '{{.DockerRootDir}}')
set -- --mount "type=bind,source=$root,target=$root,readonly,$alone" "$@"
system=/var/lib/containerd
case $(docker info --format '{{.DriverStatus}}') in
    *io.containerd.snapshotter*)
        if [ -d "$system" ]; then set -- --mount "type=bind,source=$system,target=$system,readonly,$alone" "$@"; fi ;;
esac
for variable in HOLDFAST_TOKEN HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy; do
    if printenv "$variable" >/dev/null; then set -- --env "$variable" "$@"; fi
done

# It has this machine's processes, cgroups and network, as the command `holdfast` has, and is no sandbox: what has the
# engine's socket is root here. Beyond that it gets two capabilities, to read what root may read of other processes.
if [ -n "$(docker container ls --all --quiet --filter "name=^/$name\$" --filter label=holdfast.server)" ]; then
    docker stop "$name" >/dev/null
    docker rm "$name" >/dev/null
fi
docker run --detach --name "$name" --label "holdfast.server=$home" --restart unless-stopped --stop-timeout 20 \
    --log-driver local \
    --network host --pid host --userns host --cgroupns host \
    --cap-add SYS_PTRACE --cap-add DAC_READ_SEARCH \
    --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt label=disable \
    --volume "$socket:/var/run/docker.sock" --volume /sys/fs/cgroup:/sys/fs/cgroup \
    --env "HOLDFAST_HOME=$home" --env HOLDFAST_REMOTE=no --env LANG=C.UTF-8 \
    "$@" >/dev/null

# Where it serves; or why it does not, if it has ended.
until docker logs "$name" 2>/dev/null | grep '^serving '; do
    if [ "$(docker inspect --format '{{.RestartCount}} {{.State.Status}}' "$name")" != "0 running" ]; then
        docker logs --tail 5 "$name" >&2
        docker rm --force "$name" >/dev/null
        exit 1
    fi
    sleep 0.2
done
