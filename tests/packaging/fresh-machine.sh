#!/bin/bash
# Does `make run` work on a machine that has only python3, make and the checkout?
#
# Builds such a machine with debootstrap, runs `make run` in it and does what it prints. Needs root and
# debootstrap; everything stays below $FRESH_FOLDER (default: a temporary folder, removed at the end).
#   FRESH_SUITE   Debian release (default: this machine's)
#   FRESH_MIRROR  package mirror (default: the first one of this machine's apt)
#   FRESH_TREE    an already built tree to work in, instead of running debootstrap
#   PORT          (default 19092; the tree shares this machine's loopback)
# How to reach the package registries is taken over from this machine at run time: apt's and pip's own
# configuration, certificates, and the environment variables of pip and proxies.
set -euo pipefail

# The mounts live in a mount namespace of this script's own: however it ends, none is left for whoever removes the folder.
if [ -z "${FRESH_NAMESPACE:-}" ]; then FRESH_NAMESPACE=1 exec unshare --mount --propagation private "$0" "$@"; fi

checkout=$(cd "$(dirname "$0")/../.." && pwd)
port=${PORT:-19092}
suite=${FRESH_SUITE:-$(. /etc/os-release && echo "$VERSION_CODENAME")}
mirror=${FRESH_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' "Codename: $suite" | head -1)}
folder=${FRESH_FOLDER:-$(mktemp -d)}
tree=${FRESH_TREE:-$folder/tree}
running=

fail() { echo "FAILED: $*" >&2; exit 1; }
step() { printf '%7.2f s  %s\n' "$(($(date +%s%N) / 10000000 - began))e-2" "$*"; }
inside() { (enter "$1"); }
# Replaces the calling shell, so that its process is the command's.
enter() { exec ${2:-} chroot "$tree" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin "${environment[@]}" bash -c "cd /checkout && $1"; }

clean_up() {
    if [ -n "$running" ]; then kill -TERM -- "-$running" 2>/dev/null && wait "$running" || true; fi
    for mounted in wheels dev proc; do mountpoint -q "$tree/$mounted" && umount "$tree/$mounted"; done
    if [ -z "${FRESH_FOLDER:-}" ]; then rm -rf --one-file-system "$folder"; fi
}
trap clean_up EXIT

build_tree() {
    mkdir -p "$folder"
    if [ -z "${FRESH_TREE:-}" ]; then
        debootstrap --variant=minbase --include=python3,make,ca-certificates "$suite" "$tree" "$mirror" >"$folder/debootstrap.log"
    fi
    mkdir -p "$tree/checkout"
    git -C "$checkout" ls-files -z -co --exclude-standard | tar -C "$checkout" --null --ignore-failed-read -T - -c | tar -C "$tree/checkout" -x
    mount --bind /proc "$tree/proc"
    mount --bind /dev "$tree/dev"
}

# The machine's way to the registries, not the project's business.
lend_registries() {
    rm -rf "$tree/etc/apt/sources.list" "$tree/etc/apt/sources.list.d"
    cp -a /etc/apt/sources.list.d /etc/apt/auth.conf.d "$tree/etc/apt/"
    find "$tree/etc/apt/sources.list.d" -type f ! -name 'debian*' -delete
    for file in /etc/apt/apt.conf.d/*; do
        grep -q -E 'Invoke|Pre-Install' "$file" || cp "$file" "$tree/etc/apt/apt.conf.d/"
    done
    cp -L /etc/resolv.conf "$tree/etc/"
    cp -L /etc/hosts "$tree/etc/"
    cp -L /etc/ssl/certs/ca-certificates.crt "$tree/etc/ssl/certs/"
    if [ -f /etc/pip.conf ]; then cp /etc/pip.conf "$tree/etc/"; fi
    for file in "$HOME/.pip/pip.conf" "$HOME/.config/pip/pip.conf" "$HOME/.netrc"; do
        if [ -f "$file" ]; then install -D "$file" "$tree/root/${file#"$HOME"/}"; fi
    done
    mapfile -t environment < <(env | grep -i -E '^(pip_|[a-z_]*proxy|ssl_cert|requests_ca)' | grep -v -i find_links || true)
    if [ -n "${PIP_FIND_LINKS:-}" ] && [ -d "$PIP_FIND_LINKS" ]; then
        mkdir -p "$tree/wheels"
        mount --bind "$PIP_FIND_LINKS" "$tree/wheels"
        environment+=(PIP_FIND_LINKS=/wheels)
    fi
}

# Starts `make run` and returns when its banner is printed.
make_run() {
    local log=$1
    : >"$log"
    # A session of its own, so that its group is what a terminal's foreground group would be.
    (enter "exec make run PORT=$port" setsid) >"$log" 2>&1 &
    running=$!
    until grep -q 'is ready after' "$log"; do
        kill -0 "$running" 2>/dev/null || { cat "$log" >&2; fail "make run ended"; }
        sleep 0.05
    done
}

# Ctrl-C: the terminal tells make and the broker at once.
stop() {
    kill -INT -- "-$running"
    wait "$running" || true
    ! pgrep -s "$running" >/dev/null || fail "Ctrl-C leaves processes behind"
    running=
}

began=$(($(date +%s%N) / 10000000))
build_tree
lend_registries
step "a tree with python3 and make, nothing else"
if inside 'command -v kcat || python3 -c "import ensurepip"' 2>/dev/null; then fail "the tree is not fresh"; fi

make_run "$folder/first.log"
step "first make run is ready"
cat "$folder/first.log"
shell_line=$(sed -n 's/^ *try *//p' "$folder/first.log")
python_line=$(sed -n '/^ *try/{n;s/^ *//p}' "$folder/first.log")
[ "$(inside "$shell_line" 2>/dev/null)" = hello ] || fail "the shell line of the banner does not print hello"
inside "$python_line" || fail "the Python line of the banner fails"
[ "$(inside "kcat -C -b 127.0.0.1:$port -t demo -e -q" | sort | tr '\n' ' ')" = "from Python hello " ] || fail "records are missing"
step "the lines that it prints work"

code=0
inside "make run PORT=$port" >"$folder/taken.log" 2>&1 || code=$?
[ "$code" = 2 ] || fail "a taken port is exit code $code, not 2"
grep -q "$port.*process" "$folder/taken.log" || { cat "$folder/taken.log" >&2; fail "the holder of the port is not named"; }
step "a taken port is named: $(grep -m1 "$port.*process" "$folder/taken.log")"

stop
inside "make test ENVS=lint" >"$folder/lint.log" 2>&1 || { cat "$folder/lint.log" >&2; fail "make test ENVS=lint"; }
# The smallest of them: who gets all is the first stage of .ci/run.
if inside 'command -v ccache' 2>/dev/null; then fail "the tree has the tools of the tests already"; fi
inside "packaging/checkout/tools.sh ci" || fail "the tools of the tests"
inside 'command -v ccache' >/dev/null || fail "ccache is missing"
step "make test gets what its tests need"
again=$(date +%s%N)
make_run "$folder/second.log"
echo "second make run was ready after $((($(date +%s%N) - again) / 1000000)) ms"
[ "$(inside "kcat -C -b 127.0.0.1:$port -t demo -e -q" | wc -l)" = 2 ] || fail "the second run lost the data"
stop
step "the second run kept the data"
echo PASSED
