"""Prints the bash completion of kafkad, as click makes it: the script asks the command itself."""

import sys

from click.shell_completion import BashComplete

from kafkad.cli import main

sys.stdout.write(BashComplete(main, {}, "kafkad", "_KAFKAD_COMPLETE").source())
