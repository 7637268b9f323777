"""What is known of a topic with cleanup.policy=compact: records may go from its log, but never the newest of a key.

An offset holds what it once held or nothing. When a tombstone is the newest of its key, it may go as well, and nothing
older may be there then.
"""

from typing import NamedTuple

from kafkad.core.log.records.batch import read_header
from kafkad.core.log.records.record import Record, iter_records
from tests.simulation.requests import Partition
from tests.simulation.scheduler import Violated
from tests.simulation.truth import Origin, PartitionTruth, is_tombstone, key_of, origin_of, topic_mark, whole_batches

COMPACTED = "compacted"


class _Seen(NamedTuple):
    """A record as it was read, wherever its batch begins by now."""

    timestamp: int
    record: Record


class CompactedTruth(PartitionTruth):
    """One partition; everybody's records have keys of the same few."""

    def __init__(self, partition: Partition) -> None:
        super().__init__(partition)
        self._records: dict[int, _Seen] = {}
        """By offset, as somebody has read them."""
        self._made: set[tuple[int, int]] = set()
        """Producer and number of what may be in the log, acknowledged or not."""
        self._looked: set[int] = set()
        """Offsets of the records that were there in the last look."""

    def made(self, producer: int, numbers: range) -> None:
        self._made.update((producer, number) for number in numbers)

    def begin_last_look(self) -> None:
        self._looked.clear()

    def read(self, data: bytes, position: int, high_watermark: int) -> int:
        first = True
        for base, last, batch in whole_batches(data):
            if last < position or base >= high_watermark:
                raise Violated(f"{self.name()}: {base} to {last} was read at {position}, below {high_watermark}")
            if not first and base < position:
                raise Violated(f"{self.name()}: {base} follows {position - 1}")
            base_timestamp = read_header(memoryview(batch)).base_timestamp
            for record in iter_records(memoryview(batch)):
                offset = base + record.offset_delta
                if offset > last:
                    raise Violated(f"{self.name()}: {offset} was read in a batch of {base} to {last}")
                seen = _Seen(
                    base_timestamp + record.timestamp_delta, record._replace(offset_delta=0, timestamp_delta=0)
                )
                self._see_record(offset, seen)
            position, first = last + 1, False
        return position

    def _see_record(self, offset: int, seen: _Seen) -> None:
        self._looked.add(offset)
        known = self._records.setdefault(offset, seen)
        if known != seen:
            raise Violated(f"{self.name()}: the record at {offset} is {seen}, and was {known}")
        origin = self._origin(offset)
        if (origin.topic, origin.partition) != (topic_mark(self.partition[0]), self.partition[1]):
            raise Violated(f"{self.name()}: the record at {offset} belongs to another partition")

    def _origin(self, offset: int) -> Origin:
        return origin_of(self._records[offset].record)

    # The last look.

    def check(self, log_start: int) -> None:
        if log_start:
            raise Violated(f"{self.name()} starts at {log_start}: compaction deletes nothing from the start on")
        for (producer, number), offset in self.acknowledged.items():
            if offset in self._records and (found := self._origin(offset))[::3] != (producer, number):
                what = f"{self.name()}: record {number} of producer {producer}"
                raise Violated(f"{what} was acknowledged at {offset}, there is {found}")
        self._check_newest()

    def _check_newest(self) -> None:
        """Of each key the newest that was acknowledged is there, or a newer one."""
        wanted: dict[bytes, tuple[int, int]] = {}
        for (_, number), offset in self.acknowledged.items():
            key = key_of(number)
            wanted[key] = max(wanted.get(key, (-1, 0)), (offset, number))
        newest = {self._records[offset].record.key: offset for offset in sorted(self._looked)}
        unsure = {key_of(number) for _, number in self._made - self.acknowledged.keys() if is_tombstone(number)}
        for key, (offset, number) in wanted.items():
            may_be_gone = is_tombstone(number) or key in unsure
            if newest.get(key, offset if may_be_gone else -1) < offset:
                raise Violated(
                    f"{self.name()}: record {number} at {offset} is the newest of {key!r} that was acknowledged, "
                    f"and the newest in the log is at {newest.get(key)}"
                )

    def _found(self) -> dict[tuple[int, int], list[int]]:
        found: dict[tuple[int, int], list[int]] = {}
        for offset in sorted(self._records):
            origin = self._origin(offset)
            found.setdefault((origin.producer, origin.number), []).append(offset)
        return found
