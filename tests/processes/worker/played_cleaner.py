"""Plays a cleaner process for the worker of the tests."""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace

import pytest

from kafkad.adapters.operating_system.helper_threads import HelperThreads
from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.core.cleaning.latest_of_each_key import latest_of_each_key
from kafkad.core.cleanup import RewriteSegments
from kafkad.core.log.partition_log import PartitionLog
from kafkad.processes.cleaner.planning import PlannedRewrite
from kafkad.processes.cleaner.rewriting import PassLimits, Progress, Steps, Swap, rewrite_steps
from kafkad.wire.processes.cleaning_messages import (
    NO_GRANT,
    CleaningEnded,
    CleaningGranted,
    CleaningRequest,
    Swapped,
)
from kafkad.wire.processes.descriptors import ControlMessage, unpack_control
from tests.processes.pieces import TOPIC, Pieces

CLEANER = ProcessKey("cleaner", 0)
LIMITS = PassLimits(1 << 20, 0.9, 1 << 20)
NOW = 1_700_000_000_000


class Cleaner:
    """Plays a cleaner process: what it asks is heard by the worker at once, answers are collected."""

    def __init__(self, pieces: Pieces, monkeypatch: pytest.MonkeyPatch) -> None:
        self._pieces = pieces
        self._threads = HelperThreads(1, "sync")
        self.answers: list[ControlMessage] = []
        self._wanted: Swap | None = None
        """What a pass has wanted and nobody was asked for yet."""
        monkeypatch.setattr(pieces.worker.cleanings, "_sender", self)

    def send(self, _peer: ProcessKey, frame: bytes, *, wakes: bool = True) -> bool:
        """What the worker sends to this cleaner."""
        self.answers.append(unpack_control(frame))
        return True

    def ask(self, end: int, name: str = TOPIC, *, cleaner: ProcessKey = CLEANER) -> CleaningGranted:
        owned = self._pieces.worker.partitions.by_slot[self._pieces.slot(name)]
        self._say(CleaningRequest(owned.slot, owned.short_id, "compact", 0, end), cleaner)
        self._pieces.run(lambda: self.answers, "the owner answers")
        answer = self.answers.pop()
        assert isinstance(answer, CleaningGranted)
        return answer

    def steps(
        self, granted: CleaningGranted, end: int, name: str = TOPIC, *, segment_bytes: int | None = None
    ) -> Steps:
        topic = self._pieces.image.topics[name]
        effect = RewriteSegments(
            first_dirty_offset=0,
            first_uncleanable_offset=end,
            urgency=1.0,
            record_filter=latest_of_each_key,
            reason="a test",
        )
        settings = log_of(self._pieces, name).config
        if segment_bytes is not None:
            settings = replace(settings, segment_bytes=segment_bytes)
        planned = PlannedRewrite(granted.slot, 0, topic, topic.partitions[0], settings, "compact", effect)
        return rewrite_steps(planned, granted, str(self._pieces.directory(name)), LIMITS, self._threads, NOW)

    def until_written(self, steps: Steps) -> None:
        """Go on until what was written is synced; a swap that is wanted then is asked for by `until_swap`."""
        progress = next(steps)
        while not isinstance(progress, Future | Swap):
            progress = next(steps)
        if isinstance(progress, Swap):
            self._wanted = progress
        else:
            progress.result()

    def until_swap(self, steps: Steps) -> Swap:
        """Go on up to the first swap, and ask for it."""
        progress: Progress
        progress, self._wanted = self._wanted or next(steps), None
        while not isinstance(progress, Swap):
            if isinstance(progress, Future):
                progress.result()
            progress = next(steps)
        self._say(progress.request)
        return progress

    def run(self, end: int, meanwhile: Callable[[], None] = lambda: None, name: str = TOPIC) -> None:
        """A whole pass; `meanwhile` is called when a swap was asked for and is not made yet."""
        granted = self.ask(end, name)
        steps = self.steps(granted, end, name)
        while True:
            try:
                progress = next(steps)
            except StopIteration as finished:
                self._say(CleaningEnded(granted.slot, granted.grant, finished.value[0]))
                return
            if isinstance(progress, Future):
                progress.result()
            elif isinstance(progress, Swap):
                self._say(progress.request)
                meanwhile()
                progress.done.set_result(self.swapped())

    def swapped(self) -> bool:
        self._pieces.run(lambda: self.answers, "the owner has swapped")
        answer = self.answers.pop()
        assert isinstance(answer, Swapped)
        return answer.done

    def end(self, granted: CleaningGranted) -> None:
        self._say(CleaningEnded(granted.slot, granted.grant, NO_GRANT))

    def _say(self, message: ControlMessage, cleaner: ProcessKey = CLEANER) -> None:
        self._pieces.hand_over(cleaner, message)

    def close(self) -> None:
        self._threads.close()


def log_of(pieces: Pieces, name: str = TOPIC) -> PartitionLog:
    partition_log = pieces.worker.partitions.by_slot[pieces.slot(name)].log
    assert partition_log is not None
    return partition_log
