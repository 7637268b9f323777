#!/bin/sh
# Compiles the changed modules of [native] in setup.cfg, in the checkout.
#
# Usage: [PYTHON=…] packaging/native/compile.sh      (from the top of the checkout)
set -eu
# The compiler of the modules iterates over sets of names: a fixed seed makes its output reproducible.
export PYTHONHASHSEED=0
KAFKAD_COMPILE=1 exec "${PYTHON:-python3}" setup.py --quiet build_ext --inplace
