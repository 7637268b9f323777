#!/bin/bash
# Builds kafkad_VERSION_amd64.deb from a checkout: downloads the wheels of requirements.lock (hashes are checked), then
# builds in a scratch folder without network. As root it installs missing Debian packages, otherwise it prints the
# command.
#
# Usage: packaging/debian/build.sh [FOLDER]     FOLDER: the folder of the .deb (default: the top of the checkout)
#   KAFKAD_DEB_VERSION  another version than the changelog's, for tests of upgrades
#   KAFKAD_DEB_SCRATCH  the build folder (default: a temporary folder, removed at the end)
#   KAFKAD_DEB_WHEELS   a cache folder of wheels (default: build/wheels)
#   KAFKAD_PURE=1       compile no modules of kafkad
#   KAFKAD_KEPT         a cache folder of compiled libraries, which are reused while all inputs are unchanged
#                       (default: the folder of `make native`, build/native/kept; empty: no cache)
#   CCACHE_DIR          a cache folder of ccache
#   DPKG_DEB_COMPRESSOR_LEVEL  of dpkg-deb: without compilation, compression is half of the work
set -euo pipefail

checkout=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "${1:-$checkout}"
output=$(realpath "${1:-$checkout}")
wheels=${KAFKAD_DEB_WHEELS:-$checkout/build/wheels}
kept=${KAFKAD_KEPT-$checkout/build/native/kept}
python=/usr/bin/python3.11

"$checkout/packaging/checkout/tools.sh" deb
if [ ! -x "$python" ] || [ "$(dpkg --print-architecture)" != amd64 ]; then
    echo "kafkad: building the package requires amd64 and Debian's Python 3.11 (as its wheels do)" >&2
    exit 1
fi

if [ -n "${KAFKAD_DEB_SCRATCH:-}" ]; then
    scratch=$KAFKAD_DEB_SCRATCH
    mkdir -p "$scratch"
else
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
fi

locks=("$checkout/packaging/debian/requirements.lock" "$checkout/packaging/native/requirements.lock")
mkdir -p "$wheels"
(
    # A concurrent build of the same checkout may download them too.
    flock 9
    if ! (cd "$wheels" && sed -n 's/.*sha256:\([0-9a-f]*\)$/\1/p' "${locks[@]}" | sort -u >.required &&
        sha256sum -- *.whl 2>/dev/null | cut -d' ' -f1 | sort | cmp -s - .required); then
        rm -f "$wheels"/*.whl
        for lock in "${locks[@]}"; do
            "$python" -m pip download --quiet --disable-pip-version-check --no-cache-dir --no-deps --only-binary :all: \
                --require-hashes --dest "$wheels" --requirement "$lock"
        done
    fi
) 9>"$wheels/.lock"

source=$scratch/kafkad
mkdir "$source"
parts=(kafkad spark etc examples docs packaging README.md CHANGES.md setup.cfg setup.py pyproject.toml)
if git -C "$checkout" rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    # Only files under version control.
    git -C "$checkout" ls-files -z -- "${parts[@]}" |
        tar -C "$checkout" --ignore-failed-read --null --files-from - --create | tar -C "$source" --extract
else
    (cd "$checkout" && cp -r "${parts[@]}" "$source/")
    find "$source" \( -name __pycache__ -o -name '*.so' -o -name compiled.json \) -prune -exec rm -r {} +
fi
cp -r "$checkout/packaging/debian" "$source/debian"
cp "$checkout"/packaging/systemd/kafkad.service "$source/debian/kafkad.service"
cp "$checkout"/packaging/systemd/kafkad@.service "$source/debian/kafkad@.service"
cp -r "$wheels" "$source/wheels"
if [ -n "${KAFKAD_DEB_VERSION:-}" ]; then
    sed -i "1s/(.*)/($KAFKAD_DEB_VERSION)/" "$source/debian/changelog"
    sed -i "s/^__version__ = .*/__version__ = \"$KAFKAD_DEB_VERSION\"/" "$source/kafkad/__init__.py"
fi
# With an unreachable proxy, so that a build with network access fails.
if ! (cd "$source" && env -i PATH="${CCACHE_DIR:+/usr/lib/ccache:}/usr/sbin:/usr/bin:/sbin:/bin" HOME="$scratch" LC_ALL=C.UTF-8 TZ=UTC \
    KAFKAD_PURE="${KAFKAD_PURE:-}" KAFKAD_KEPT="$kept" ${CCACHE_DIR:+CCACHE_DIR="$CCACHE_DIR"} \
    ${DPKG_DEB_COMPRESSOR_LEVEL:+DPKG_DEB_COMPRESSOR_LEVEL="$DPKG_DEB_COMPRESSOR_LEVEL"} \
    http_proxy=http://127.0.0.1:9 https_proxy=http://127.0.0.1:9 \
    dpkg-buildpackage --build=binary --no-sign >"$scratch/log" 2>&1); then
    tail -n 40 "$scratch/log" >&2
    exit 1
fi
mv "$scratch"/kafkad_*_amd64.deb "$output/"
ls "$output"/kafkad_*_amd64.deb
