#!/bin/sh
# Updates requirements.lock to the newest versions that setup.cfg allows, with the hashes of their wheels, and the
# requirements.lock of packaging/native for the compiler.
# Run it on the architecture of the package (Python 3.11, amd64).
set -eu
cd "$(dirname "$0")/../.."

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python=/usr/bin/python3.11
"$python" -c '
import configparser
setup = configparser.ConfigParser()
setup.read("setup.cfg")
print(setup["options"]["install_requires"].strip())
' >"$scratch/requirements"

lock() {
    requirements=$1 lock=$2 wheels=$scratch/wheels-$(basename "$1")
    "$python" -m pip download --quiet --only-binary :all: --dest "$wheels" --requirement "$requirements"
    {
        sed '/^[^#]/,$d' "$lock"
        for wheel in "$wheels"/*.whl; do
            name=$(basename "$wheel" | cut -d- -f1 | tr _ -)
            version=$(basename "$wheel" | cut -d- -f2)
            echo "$name==$version --hash=sha256:$(sha256sum "$wheel" | cut -d' ' -f1)"
        done
    } >"$scratch/lock"
    mv "$scratch/lock" "$lock"
}

lock "$scratch/requirements" packaging/debian/requirements.lock
lock packaging/native/requirements.txt packaging/native/requirements.lock
