"""What becomes of a real broker whose standard streams nobody reads or no disk takes. Commands: tests/cli.

Real, for the pipes that its processes share.
"""

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from bench.brokers.daemon import Kafkad
from bench.brokers.processes import eventually


class Unheard(Kafkad):
    """A broker whose standard streams are what a shell's `redirection` makes them."""

    redirection = ""

    def command(self) -> list[str]:
        return ["bash", "-c", f'unset PYTHONUNBUFFERED; exec "$@" {self.redirection}', "bash", *super().command()]

    def replace_worker(self) -> None:
        """Kill a worker, and wait until another one serves."""
        worker = next(each for each in self.tree() if each.name == "worker-0")
        os.kill(worker.pid, signal.SIGKILL)
        eventually(
            lambda: any(each.name == "worker-0" and each.pid != worker.pid for each in self.tree()),
            what="the worker is replaced",
        )
        self.wait_until_ready()


@pytest.mark.parametrize("redirection", [">/dev/full 2>&1", "<&- >&- 2>&-", "> >(:) 2>&1"])
def test_broker_that_nobody_hears_serves_replaces_its_dead_and_stops_in_order(tmp_path: Path, redirection: str) -> None:
    broker = Unheard(tmp_path)
    broker.redirection = redirection
    with broker:
        broker.replace_worker()
    assert (broker.log_dir / ".kafka_cleanshutdown").exists()


def test_broker_whose_log_pipe_is_full_serves_and_writes_its_lines_when_it_is_read(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    with suppress(BlockingIOError):
        while True:
            os.write(reader, b"." * 4095 + b"\n")
    broker = Unheard(tmp_path)
    broker.redirection = f"> {pipe} 2>&1"
    said = b""

    def has_said(line: bytes) -> bool:
        nonlocal said
        with suppress(BlockingIOError):
            while True:
                said += os.read(reader, 1 << 16)
        return line in said

    with broker:
        broker.replace_worker()
        eventually(lambda: has_said(b"worker-0 exited with SIGKILL"), what="lines that waited are written")
    assert has_said(b"SIGTERM: stopping the broker")
    assert b"dropped" not in said
    os.close(reader)
