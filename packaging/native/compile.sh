#!/bin/sh
# Compiles in the checkout what setup.cfg names under [native], as far as it has changed.
#
# Usage: [PYTHON=…] packaging/native/compile.sh      (from the top of the checkout)
set -eu
# The compiler of the modules goes through sets of names: what it makes is the same each time, and can be kept.
export PYTHONHASHSEED=0
KAFKAD_COMPILE=1 exec "${PYTHON:-python3}" setup.py --quiet build_ext --inplace
