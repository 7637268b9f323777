#!/bin/sh
# Compiles in the checkout what setup.cfg names under [native], as far as it has changed.
#
# Usage: [PYTHON=…] packaging/native/compile.sh      (from the top of the checkout)
set -eu
KAFKAD_COMPILE=1 exec "${PYTHON:-python3}" setup.py --quiet build_ext --inplace
