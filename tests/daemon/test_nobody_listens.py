"""What becomes of a broker, and of a command, whose output nobody reads or no disk takes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bench.brokers.daemon import Kafkad
from bench.brokers.processes import eventually

KAFKAD = [sys.executable, "-m", "kafkad"]
# As from a shell: Python's own buffers are part of the matter.
BUFFERED = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}


class Unheard(Kafkad):
    """A broker whose standard streams are what a shell's `redirection` makes them."""

    redirection = ""

    def command(self) -> list[str]:
        return ["bash", "-c", f'unset PYTHONUNBUFFERED; exec "$@" {self.redirection}', "bash", *super().command()]


@pytest.mark.parametrize("redirection", [">/dev/full 2>&1", "<&- >&- 2>&-", "> >(:) 2>&1"])
def test_broker_that_nobody_hears_serves_replaces_its_dead_and_stops_in_order(tmp_path: Path, redirection: str) -> None:
    broker = Unheard(tmp_path)
    broker.redirection = redirection
    with broker:
        worker = next(each for each in broker.tree() if each.name == "worker-0")
        os.kill(worker.pid, signal.SIGKILL)
        eventually(
            lambda: any(each.name == "worker-0" and each.pid != worker.pid for each in broker.tree()),
            what="the worker is replaced",
        )
        broker.wait_until_ready()
    assert (broker.log_dir / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize("command", [["check-config"], ["plugins", "list", "--json"], ["--help"]], ids=" ".join)
def test_output_that_no_disk_takes_is_one_line_and_exit_code_1(command: list[str]) -> None:
    with open("/dev/full", "w") as full:
        outcome = subprocess.run(
            [*KAFKAD, *command], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, env=BUFFERED
        )
    assert outcome.stderr == "kafkad: the output can't be written: No space left on device\n"
    assert outcome.returncode == 1
