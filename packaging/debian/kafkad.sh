#!/bin/sh
# Runs kafkad in the environment of the package; see kafkad(1).
# The plugins folder of `kafkad plugins install`; kafkad.plugins.dir in the configuration takes precedence.
export KAFKAD_PLUGINS_DIR="${KAFKAD_PLUGINS_DIR-/usr/local/lib/kafkad/plugins}"
exec /usr/lib/kafkad/bin/python3 -sP -m kafkad "$@"
