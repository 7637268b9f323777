"""What do the parts of a worker have to do beside appends, and when?

Each pass that only appends would ask all of them in vain. So they are asked when something else came (`has_news`), or
when the earliest of their deadlines has passed.
"""

from collections.abc import Callable

from kafkad.processes.runtime.turns import STEP_S
from kafkad.processes.worker.assembly import Assembly
from kafkad.processes.worker.owned import OwnedPartition

_NEVER_MS = 2**62


class PassWork:
    """`loaded` gets a partition whose log is there, `progress` how many of how many logs are."""

    def __init__(
        self, assembly: Assembly, *, loaded: Callable[[OwnedPartition], None], progress: Callable[[int, int], None]
    ) -> None:
        self._partitions = assembly.partitions
        self._loader = assembly.loader
        self._appender = assembly.appender
        self._upkeep = assembly.upkeep
        self._questions = assembly.questions
        self._cleanings = assembly.cleanings
        self._moves = assembly.moves
        self._room = assembly.room
        self._periodic = assembly.periodic
        self._leading = assembly.leading
        self._following = assembly.following
        self._replication_log = assembly.replication_log
        self._coordinator_shards = assembly.coordinator_shards
        self._marker_writer = assembly.marker_writer
        self._coordinator_messages = assembly.coordinator_messages
        self._other_brokers = assembly.other_brokers
        self._slot_publisher = assembly.slot_publisher
        self._loaded = loaded
        self._progress = progress
        self.has_news = True
        """Whether more came than appends and watches since the last wait: any part may have work now."""
        self._due_ms = 0
        """Until then no part has work unless news come."""

    def is_due(self, now_ms: int) -> bool:
        if now_ms >= self._due_ms or (self._other_brokers is not None and self._other_brokers.has_heard):
            self.has_news = True
        return self.has_news

    def tick(self, now_ms: int) -> None:
        """Before the pass publishes: what may change logs."""
        self._loader.try_again(now_ms)
        if not self._loader.is_idle:
            self._loader.work(STEP_S, self._loaded)
            self._progress(*self._loader.progress)
        self._appender.tick()
        self._leading.work(now_ms)
        self._following.work(now_ms)
        self._questions.tick()
        self._cleanings.tick()
        self._cleanings.work(now_ms)
        self._moves.work(now_ms)
        if self._coordinator_messages.has_turns:
            self._coordinator_messages.take_turns()
        if self._marker_writer.is_busy:
            self._marker_writer.work(STEP_S)
        self._coordinator_shards.settle()

    def tidy_up(self, now_ms: int) -> None:
        """After the answers to appends: what follows from the published slots, and what the clock orders."""
        self._following.answer()
        self._marker_writer.respond_to_written()
        self._appender.expire(now_ms)
        self._questions.pending_deletes.expire(now_ms)
        self._coordinator_shards.work(STEP_S, now_ms)
        self._coordinator_messages.work(now_ms)
        removal_due_ms = self._partitions.removal_due_ms
        if removal_due_ms is not None and removal_due_ms <= now_ms:
            self._partitions.remove_left(now_ms)
        self._upkeep.remove_due(now_ms)
        self._room.check_again(now_ms)
        self._replication_log.work(now_ms)
        self._periodic.run(now_ms)

    def due_ms(self) -> int | None:
        """Before each wait: when there is work, whatever comes in; None when there is none."""
        appending = self._appender
        if self.has_news or self._slot_publisher.has_dirty or appending.is_busy or appending.has_waiting:
            self.has_news = False
            self._due_ms = self._next_due_ms()
        return self._due_ms if self._due_ms < _NEVER_MS else None

    def _next_due_ms(self) -> int:
        if self._is_busy():
            return 0
        deadlines = [
            self._appender.next_deadline_ms,
            self._leading.next_deadline_ms,
            self._following.next_deadline_ms,
            self._replication_log.next_deadline_ms,
            self._questions.pending_deletes.next_deadline_ms,
            self._periodic.next_ms,
            self._loader.try_again_ms,
            self._coordinator_shards.next_deadline_ms,
            self._coordinator_messages.next_deadline_ms,
            self._partitions.removal_due_ms,
            self._upkeep.next_deadline_ms,
            self._cleanings.next_deadline_ms,
            self._moves.next_deadline_ms,
            self._room.next_check_ms,
        ]
        return min([deadline for deadline in deadlines if deadline is not None], default=_NEVER_MS)

    def _is_busy(self) -> bool:
        coordinates = self._coordinator_shards.is_busy or self._coordinator_messages.is_busy
        appends = self._slot_publisher.has_dirty or self._appender.is_busy or self._marker_writer.is_busy
        appends = appends or self._following.is_busy
        return appends or coordinates or self._questions.is_busy or self._cleanings.is_busy or not self._loader.is_idle
