#!/bin/sh
# Creates the virtual environment of a checkout, and installs missing Debian packages: by apt-get as root, otherwise
# prints the command. Nothing is compiled.
#
# Usage: venv.sh FOLDER [ARGUMENT...]      (from the top of the checkout)
#   ARGUMENT   arguments of `pip install`; by default the checkout and confluent-kafka, for the first steps in Python
set -eu

folder=$1
shift
[ $# -gt 0 ] || set -- --only-binary :all: --editable . confluent-kafka
oldest=3.11

log() { echo "kafkad: $*" >&2; }

is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

# The distribution's build is preferred: it is optimized with profiles, unlike most manual builds (a third more time for
# each request). PYTHON=… selects another Python.
distribution() {
    case ":$PATH:" in
        *:/usr/bin:*) echo /usr/bin/python3.11 /usr/bin/python3.12 /usr/bin/python3.13 /usr/bin/python3 ;;
    esac
}

find_python() {
    for name in ${PYTHON:-$(distribution) python3.11 python3.12 python3.13 python3.14 python3}; do
        if is_new_enough "$name"; then
            command -v "$name"
            return
        fi
    done
    return 1
}

# A minimal Debian has Python without its venv and pip modules.
has_venv() { "$1" -c 'import venv, ensurepip' 2>/dev/null; }

can_install() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }

install() {
    log "installing $* with apt-get"
    if ! DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>&1; then
        apt-get update -qq >/dev/null
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
    fi
}

prefix='sudo apt-get'
if ! python=$(find_python); then
    if can_install; then
        install python3 python3-venv
    fi
    if ! python=$(find_python); then
        log "Python $oldest or later was not found; install it with: $prefix install python3 python3-venv"
        exit 1
    fi
fi

if ! has_venv "$python"; then
    package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    if can_install; then
        install "$package"
    else
        log "$python has no venv module; install it with: $prefix install $package"
        exit 1
    fi
fi

if ! command -v kcat >/dev/null; then
    if can_install; then
        install kcat || log "kcat, which the first steps use, could not be installed; kafkad runs without it"
    else
        log "kcat, which the first steps use, is missing; install it with: $prefix install kcat"
    fi
fi

# Replaces an incomplete environment, or one of a removed interpreter.
if ! { [ -x "$folder/bin/python" ] && "$folder/bin/python" -m pip --version >/dev/null 2>&1; }; then
    if [ -e "$folder" ] && [ ! -f "$folder/pyvenv.cfg" ]; then
        log "$folder exists and is not a virtual environment; move it away, or run make VENV=another-folder"
        exit 1
    fi
    rm -rf "$folder"
    "$python" -m venv "$folder"
fi

"$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
