#!/bin/sh
# kafkad with the Python and the packages that it came with; see kafkad(1).
# The folder for plugins that `kafkad plugins install` fills; kafkad.plugins.dir in the configuration wins over it.
export KAFKAD_PLUGINS_DIR="${KAFKAD_PLUGINS_DIR-/usr/local/lib/kafkad/plugins}"
exec /usr/lib/kafkad/bin/python3 -sP -m kafkad "$@"
