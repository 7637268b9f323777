"""A real broker for tests that misbehave towards it: what it says, what its arena holds, who still gets served."""

import urllib.request
from collections.abc import Mapping
from pathlib import Path

from bench.brokers.daemon import Kafkad
from bench.brokers.ports import free_port
from bench.brokers.processes import WITHIN_S, eventually
from tests.tools.raw_requests import RawClient, api_versions, batch, create_topic, produce, read_produced


class Served:
    """`broker` with topic "t" of `partitions` partitions, and its metrics page."""

    def __init__(self, folder: Path, overrides: Mapping[str, str] | None = None, *, partitions: int = 2) -> None:
        self.metrics_port = free_port()
        settings = {"kafkad.metrics.listener": f"127.0.0.1:{self.metrics_port}", **(overrides or {})}
        self.broker = Kafkad(folder, settings)
        self._partitions = partitions

    def __enter__(self) -> "Served":
        self.broker.__enter__()
        with RawClient(self.broker.port) as client:
            assert b"\x00\x01t\x00\x00" in client.ask(create_topic("t", self._partitions))
        return self

    def __exit__(self, *error: object) -> None:
        self.broker.__exit__(*error)  # type: ignore[arg-type]

    def connect(self, *, patience_s: float = 60.0, source: str = "127.0.0.1") -> RawClient:
        return RawClient(self.broker.port, patience_s=patience_s, source=source)

    def lines(self, part: str) -> list[str]:
        """The lines of the broker's log that have `part` in them."""
        return [line for line in self.broker.output.read_text(errors="replace").splitlines() if part in line]

    def one_line(self, part: str) -> str:
        """The one line with `part`, waited for; there must be no second."""
        eventually(lambda: self.lines(part), what=f"the broker says something about {part}")
        (line,) = self.lines(part)
        return line

    def metric(self, name: str) -> float:
        """The sum of all series of a metric."""
        rows = [line.split() for line in self.metric_lines(name)]
        assert rows, f"there is no metric {name}"
        return sum(float(value) for _, value in rows)

    def metric_lines(self, name: str) -> list[str]:
        """The page's lines that begin with `name`."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=WITHIN_S) as page:
            return [line for line in page.read().decode().splitlines() if line.startswith(name)]

    def pid_of(self, title: str) -> int:
        """The process that calls itself so, `worker-0` say."""
        (found,) = [each.pid for each in self.broker.tree() if each.title.endswith(title)]
        return found

    def is_serving(self, partition: int = 0) -> bool:
        """Whether somebody else can produce; retried by who asks."""
        try:
            with self.connect() as client:
                body = client.ask(produce({("t", partition): batch()}))
        except OSError:
            return False
        return read_produced(body)["t", partition].error == 0

    def is_open(self) -> bool:
        """Whether somebody else is let in and answered."""
        try:
            with self.connect() as client:
                return bool(client.ask(api_versions()))
        except OSError:
            return False

    def leaves_nothing_behind(self) -> None:
        """Others are served, and nothing of the arena stays lent."""
        eventually(self.is_serving, what="somebody else is served")
        eventually(lambda: self.metric("kafkad_arena_used_bytes") == 0, what="the arena is empty")
