"""A command whose stderr is a terminal: there it shows progress bars."""

import os
import pty
import subprocess
import sys
from collections.abc import Sequence
from typing import NamedTuple


class Shown(NamedTuple):
    """`terminal` has the carriage returns in it with which a bar is drawn anew."""

    code: int
    stdout: str
    terminal: str


def on_terminal(arguments: Sequence[str], *, within_s: float) -> Shown:
    """Runs `kafkad` with these arguments to its end."""
    window, terminal = pty.openpty()
    command = [sys.executable, "-m", "kafkad", *arguments]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=terminal) as process:
        os.close(terminal)
        shown = b""
        try:
            # It is closed at the end of the last process that has it.
            while data := _read(window):
                shown += data
            stdout, _ = process.communicate(timeout=within_s)
        finally:
            process.kill()
            os.close(window)
    return Shown(process.returncode, stdout.decode(), shown.decode())


def _read(window: int) -> bytes:
    try:
        return os.read(window, 65_536)
    except OSError:
        return b""
