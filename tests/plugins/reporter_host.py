"""A reporter's surroundings without a process: one snapshot, and the pages that were added."""

from collections.abc import Callable

from kafkad.core.metrics.metric import MetricsSnapshot, Page


class RecordedHost:
    def __init__(self, snapshot: MetricsSnapshot) -> None:
        self.taken = snapshot
        self.pages: dict[str, Callable[[], Page]] = {}

    def snapshot(self) -> MetricsSnapshot:
        return self.taken

    def add_page(self, path: str, render: Callable[[], Page]) -> None:
        self.pages[path] = render
