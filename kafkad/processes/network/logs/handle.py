"""One partition's log in a network process: its present reader, and the state of reads ahead."""

from kafkad.core.log.reading.log_reader import LogReader
from kafkad.core.log.reading.segment_facts import SegmentFacts
from kafkad.core.log.segments.manifest import LogManifest
from kafkad.core.types import LogPosition


class LogHandle:
    """A partition's reader; `is_whole` if it has the owner's manifest, not only the newest segment.

    `ahead` has the offsets whose pages a thread reads, or (True) has read, so that this process does not wait.
    `touched` has the older segments that were opened before. `learnt` has the last whole reader's facts about segments.
    """

    __slots__ = ("ahead", "generation", "is_whole", "learnt", "reader", "topic_id", "touched")

    def __init__(self, reader: LogReader, topic_id: bytes, generation: int, *, is_whole: bool) -> None:
        self.reader = reader
        self.topic_id = topic_id
        self.generation = generation
        self.is_whole = is_whole
        self.ahead: dict[int, bool] = {}
        self.touched: set[int] = set()
        self.learnt: tuple[LogManifest, SegmentFacts] | None = (reader.manifest, reader.facts) if is_whole else None

    def follow(self, before: "LogHandle") -> None:
        """Inherit the facts of `before`, a handle of the same log."""
        if before.learnt is None:
            return
        if self.is_whole:
            manifest, facts = before.learnt
            self.reader.facts.inherit(facts, manifest, self.reader.manifest)
        else:
            self.learnt = before.learnt

    @property
    def segments(self) -> int:
        """The number of segments in memory."""
        return len(self.learnt[0].segment_bases) if self.learnt is not None else 1

    def has(self, offset: int, upper: LogPosition) -> bool:
        """Whether the reader knows all segments from `offset` to `upper`."""
        manifest = self.reader.manifest
        return self.is_whole or (manifest.segment_bases[0] <= offset and manifest.has_segment(upper.segment_base))

    def is_untouched(self, offset: int) -> bool:
        """Whether `offset` is in an older segment that is not open: opening it may wait for a disk."""
        bases = self.reader.manifest.segment_bases
        if offset >= bases[-1]:
            return False
        number = self.reader.manifest.segment_number(offset)
        return number >= 0 and bases[number] not in self.touched
