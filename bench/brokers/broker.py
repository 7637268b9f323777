"""Run a real broker, of Apache Kafka or kafkad, with a guaranteed end.

Brokers are context managers with a folder each, on a free port of loopback. `stop` sends SIGTERM and must succeed. The
exit of the context kills remaining processes, and fails if a process outlived a clean stop.
"""

import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from bench.brokers.ports import free_port
from bench.brokers.processes import WITHIN_S, Process, eventually, is_alive, kill_all, process_tree
from bench.brokers.readiness import responds


class RunningBroker:
    """A broker process in `folder`: its port, its tree of processes, start, stop and kill."""

    name = "broker"
    host = "127.0.0.1"
    clean_exits = frozenset({0})
    running: ClassVar[list["RunningBroker"]] = []
    """The brokers with an active context."""

    def __init__(self, folder: Path, overrides: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.log_dir = folder / "data"
        self.output = folder / "output.log"
        self.overrides = dict(overrides or {})
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} is not started"
        return self._process.pid

    @property
    def working_folder(self) -> Path:
        return self.folder

    def command(self) -> list[str]:
        raise NotImplementedError

    def prepare(self) -> None:
        """Prepare the first start."""

    def start(self, *, wait: bool = True) -> None:
        """Start the process; with `wait`, wait until it responds to requests."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.output, "ab") as output:
            self._process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=self.working_folder
            )
        if wait:
            self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """Wait until the broker responds to requests; an early exit fails with its output."""
        eventually(self._ready_or_dead, what=f"{self.name} responds to requests")

    def tree(self) -> list[Process]:
        """The present processes of the broker, parents before children."""
        return process_tree(self.pid) if self._process is not None else []

    def stop(self) -> int:
        """Send SIGTERM; returns the exit code. Raises if the broker or a child does not stop."""
        assert self._process is not None, f"{self.name} is not started"
        tree = self.tree()
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(WITHIN_S)
        left = tree[1:]
        self._process = None
        eventually(lambda: not _alive(left), what=f"the children of {self.name} end: {left}")
        return code

    def kill(self) -> None:
        """Send SIGKILL to all processes of the tree."""
        tree = self.tree()
        kill_all(tree)
        if self._process is not None:
            self._process.wait(WITHIN_S)
            self._process = None
        eventually(lambda: not _alive(tree), what=f"the killed processes of {self.name} end")

    def tail(self, lines: int = 40) -> str:
        """The last lines of the broker's output."""
        if not self.output.exists():
            return ""
        return "\n".join(self.output.read_text(errors="replace").splitlines()[-lines:])

    def _ready_or_dead(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise AssertionError(f"{self.name} exited with {self._process.returncode}:\n{self.tail()}")
        return responds(self.port, self.host)

    def __enter__(self) -> Self:
        self.prepare()
        return self._enter()

    @contextmanager
    def started_again(self) -> Iterator[Self]:
        """A context with a new start of the broker on its present folder."""
        with ExitStack() as ends:
            self._enter()
            ends.push(self.__exit__)
            yield self

    def _enter(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        self.running.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.running.remove(self)
        if kind is not None:
            print(f"{self.name} on {self.bootstrap} printed last:\n{self.tail()}")
        if self._process is None:
            return
        if kind is not None:
            self.kill()
            return
        try:
            code = self.stop()
        finally:
            self.kill()
        assert code in self.clean_exits, f"{self.name} stopped with {code}:\n{self.tail()}"


def _alive(processes: list[Process]) -> list[Process]:
    return [process for process in processes if is_alive(process)]
