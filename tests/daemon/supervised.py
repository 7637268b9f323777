"""`tests.daemon.trivial_broker` as a child of the test."""

import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from bench.brokers.processes import WITHIN_S, Process, is_alive, process_tree
from tests.tools.stranger import as_stranger


class TrivialBroker:
    """`tests.daemon.trivial_broker` as a child of the test; its lines are read as they come."""

    def __init__(
        self,
        folder: Path,
        *settings: str,
        environment: dict[str, str] | None = None,
        limits: Mapping[int, int] | None = None,
        is_stranger: bool = False,
    ) -> None:
        """`limits` are soft ones, by their numbers in `resource`."""
        self.folder = folder
        self.lines: list[str] = []
        self._rest = b""
        with (folder / "log").open("ab") as log:
            command = [sys.executable, "-m", "tests.daemon.trivial_broker", str(folder), *settings]
            self._process = subprocess.Popen(
                as_stranger(command) if is_stranger else command,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, **(environment or {})},
                preexec_fn=None if limits is None else lambda: _limit(limits),
            )
        self.pid = self._process.pid

    def wait_for(self, line: str) -> None:
        """Read until `line` (or one that begins with it and a space) is there."""
        deadline = time.monotonic() + WITHIN_S
        while not self.has_said(line):
            assert self._read(deadline), f"no {line!r} in {self.lines}\n{self.log()}"

    def has_said(self, line: str) -> bool:
        return any(said == line or said.startswith(line + " ") for said in self.lines)

    def says_anything_within(self, seconds: float) -> bool:
        return self._read(time.monotonic() + seconds)

    def _read(self, deadline: float) -> bool:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        readable, _, _ = select.select([descriptor], [], [], max(0, deadline - time.monotonic()))
        chunk = os.read(descriptor, 65536) if readable else b""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        self.lines += [line.decode() for line in lines]
        return bool(chunk)

    def wait_until_serving(self) -> "TrivialBroker":
        self.wait_for("serving")
        return self

    def wait_for_end(self) -> int:
        """The exit code; reads what is left to say."""
        deadline = time.monotonic() + WITHIN_S
        while self._read(deadline):
            pass
        return self._process.wait(max(0.1, deadline - time.monotonic()))

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def tree(self) -> list[Process]:
        return process_tree(self.pid)

    def pid_of(self, name: str) -> int:
        return next(process.pid for process in self.tree() if process.title == f"kafkad {name}")

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def is_marked_clean(self) -> bool:
        return (self.folder / "data" / ".kafka_cleanshutdown").exists()

    def end(self) -> None:
        """Whatever the test did: nothing of this broker goes on."""
        family = self.tree()
        self._process.kill()
        self._process.wait()
        for process in family:
            await_death(process)
        assert self._process.stdout is not None
        self._process.stdout.close()


def _limit(limits: Mapping[int, int]) -> None:
    for kind, soft in limits.items():
        resource.setrlimit(kind, (soft, resource.getrlimit(kind)[1]))


def await_death(process: Process) -> None:
    """Until the very process is gone; by descriptor, so that a reused pid is nobody's death."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    try:
        if is_alive(process):
            gone, _, _ = select.select([descriptor], [], [], WITHIN_S)
            assert gone, f"{process.title} ({process.pid}) is still there"
    finally:
        os.close(descriptor)
