"""Prints the bash completion of kafkad, as click generates it: the script runs the command for completions."""

import sys

from click.shell_completion import BashComplete

from kafkad.cli import main

sys.stdout.write(BashComplete(main, {}, "kafkad", "_KAFKAD_COMPLETE").source())
