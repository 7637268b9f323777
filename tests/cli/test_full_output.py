"""What becomes of a command whose output no disk takes."""

import os
import subprocess
import sys

import pytest

from bench.brokers.processes import WITHIN_S

KAFKAD = [sys.executable, "-m", "kafkad"]
# As from a shell: Python's own buffers are part of the matter.
BUFFERED = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}


@pytest.mark.parametrize("command", [["check-config"], ["plugins", "list", "--json"], ["--help"]], ids=" ".join)
def test_output_that_no_disk_takes_is_one_line_and_exit_code_1(command: list[str]) -> None:
    with open("/dev/full", "w") as full:
        outcome = subprocess.run(
            [*KAFKAD, *command], stdout=full, stderr=subprocess.PIPE, text=True, timeout=WITHIN_S, env=BUFFERED
        )
    assert outcome.stderr == "kafkad: the output can't be written: No space left on device\n"
    assert outcome.returncode == 1
