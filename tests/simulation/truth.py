"""What clients were told and have read, partition by partition, and whether it can all be true at once.

A record carries who sent it, under which number, and to where. A log never changes what it has once shown, so
everybody's reads are held against each other, too.
"""

from collections.abc import Callable, Collection, Iterator
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from kafkad.core.log.records.record import NewRecord, Record, build_batch, iter_records
from kafkad.core.types import NO_PRODUCER_ID, NO_SEQUENCE
from tests.simulation.requests import Partition
from tests.simulation.scheduler import Violated

_VALUE = Struct(">iiiq")
_HEADER = Struct(">qiibIhi")
_CRC_FROM = 21
_ORIGIN = "origin"
"""The header that says where a record with a key is from, as a tombstone has no value."""
_KEYS, _TOMBSTONE_EACH = 5, 7
_LENGTH_AT, _HEADER_BYTES = 12, 61


class Origin(NamedTuple):
    """What is in a record: its producer, its topic and partition, and its number there."""

    producer: int
    topic: int
    partition: int
    number: int


def topic_mark(topic: str) -> int:
    return crc32c(topic.encode()) >> 1


def key_of(number: int) -> bytes:
    """The key of a record of this number, in a topic where they have any."""
    return bytes((number % _KEYS,))


def is_tombstone(number: int) -> bool:
    return number % _TOMBSTONE_EACH == _TOMBSTONE_EACH - 1


def _record(origin: Origin, wall_ms: int, padding: int, *, is_keyed: bool) -> NewRecord:
    value = _VALUE.pack(*origin) + bytes(padding)
    if not is_keyed:
        return NewRecord(wall_ms, None, value)
    key, headers = key_of(origin.number), ((_ORIGIN, _VALUE.pack(*origin)),)
    return NewRecord(wall_ms, key, None if is_tombstone(origin.number) else value, headers)


def origin_of(record: Record) -> Origin:
    """Of a record with a key."""
    return Origin(*_VALUE.unpack(dict(record.headers)[_ORIGIN] or b""))


def make_batch(
    producer: int,
    partition: Partition,
    numbers: range,
    wall_ms: int,
    padding: int,
    *,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_keyed: bool = False,
) -> bytes:
    mark = topic_mark(partition[0])
    return bytes(
        build_batch(
            [
                _record(Origin(producer, mark, partition[1], number), wall_ms, padding, is_keyed=is_keyed)
                for number in numbers
            ],
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            is_transactional=is_transactional,
        )
    )


def whole_batches(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """(first offset, last offset, bytes) of each; what is cut off at the end belongs to none. Checks each CRC."""
    at = 0
    while len(data) - at >= _HEADER_BYTES:
        base, length, _, magic, crc, _, last_delta = _HEADER.unpack_from(data, at)
        end = at + _LENGTH_AT + length
        if magic != 2 or length < _HEADER_BYTES - _LENGTH_AT:
            raise Violated(f"no batch begins at byte {at} of {len(data)}: magic {magic}, length {length}")
        if end > len(data):
            return
        batch = data[at:end]
        if crc32c(batch[_CRC_FROM:]) != crc:
            raise Violated(f"the batch at offset {base} is torn: its CRC is wrong")
        yield base, base + last_delta, batch
        at = end


def origins(batch: bytes) -> list[Origin]:
    return [Origin(*_VALUE.unpack_from(record.value or b"")) for record in iter_records(memoryview(batch))]


class PartitionTruth:
    """One partition of a topic that is never deleted."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.batches: dict[int, tuple[int, bytes]] = {}
        """(last offset, bytes) by first offset, as somebody has read them."""
        self.acknowledged: dict[tuple[int, int], int] = {}
        """Offset by producer and number."""
        self.abandoned: set[tuple[int, int]] = set()
        """Producer and number of what the broker refused because it has it already, or so it says."""
        self.deleted_up_to = 0
        """Somebody has asked for this at most to be deleted; nobody may miss anything from here on."""
        self.retention_ms: int | None = None
        """Records go by themselves when they are older than this."""
        self.log_start = 0
        self._made_ms: dict[int, int] = {}
        """When the record at an offset was made, by the wall clock."""
        self.acknowledged_end = 0
        """One more than the highest offset that somebody was told."""

    def name(self) -> str:
        return f"{self.partition[0]}-{self.partition[1]}"

    def acknowledge(self, producer: int, numbers: range, base_offset: int, made_ms: int) -> None:
        self.acknowledged_end = max(self.acknowledged_end, base_offset + len(numbers))
        for number in numbers:
            offset = base_offset + number - numbers.start
            self._made_ms[offset] = made_ms
            before = self.acknowledged.setdefault((producer, number), offset)
            if before != offset:
                raise Violated(
                    f"{self.name()}: record {number} of producer {producer} was acknowledged at {before} and {offset}"
                )

    def made(self, producer: int, numbers: range) -> None:
        """They are about to be sent."""

    def begin_last_look(self) -> None:
        """Somebody reads it from its start, and nobody writes any more."""

    def starts_at(self, log_start: int, wall_ms: int) -> None:
        """The log begins there from now on; what went by itself must have been old enough."""
        if self.retention_ms is not None:
            for offset in range(self.log_start, log_start):
                age_ms = wall_ms - self._made_ms.get(offset, 0)
                if age_ms < self.retention_ms:
                    raise Violated(f"{self.name()}: the record at {offset} went when it was {age_ms} ms old")
        self.log_start = max(self.log_start, log_start)

    def read(self, data: bytes, position: int, high_watermark: int) -> int:
        """Take what a fetch at `position` got; the next position."""
        first = True
        for base, last, batch in whole_batches(data):
            if last < position or base >= high_watermark:
                raise Violated(f"{self.name()}: {base} to {last} was read at {position}, below {high_watermark}")
            if base > position if first else base != position:
                raise Violated(f"{self.name()}: a hole from {position} to {base}")
            self._see(base, last, batch)
            position, first = last + 1, False
        return position

    def _see(self, base: int, last: int, batch: bytes) -> None:
        known = self.batches.get(base)
        if known is None:
            self.batches[base] = last, batch
            self._check_origins(base, batch)
        elif known[1] != batch:
            raise Violated(f"{self.name()}: the batch at {base} is not what it was")

    def _check_origins(self, base: int, batch: bytes) -> None:
        mark = topic_mark(self.partition[0])
        for offset, origin in enumerate(origins(batch), base):
            if (origin.topic, origin.partition) != (mark, self.partition[1]):
                raise Violated(f"{self.name()}: the record at {offset} belongs to another partition")

    # The last look.

    def check(self, log_start: int) -> None:
        """The log has been read from its start to its end."""
        if log_start > self.deleted_up_to:
            raise Violated(f"{self.name()} starts at {log_start}, nobody asked for more than {self.deleted_up_to}")
        found = self._found()
        if not self.deleted_up_to and not self.abandoned.issubset(found):
            raise Violated(f"{self.name()}: {sorted(self.abandoned - found.keys())} was refused, and is not there")
        for (producer, number), offset in self.acknowledged.items():
            if offset >= log_start and offset not in found.get((producer, number), []):
                raise Violated(
                    f"{self.name()}: record {number} of producer {producer} was acknowledged at {offset}, "
                    f"and is at {found.get((producer, number), [])}"
                )

    def _found(self) -> dict[tuple[int, int], list[int]]:
        """Offsets by producer and number."""
        found: dict[tuple[int, int], list[int]] = {}
        for base, (_, batch) in sorted(self.batches.items()):
            for offset, origin in enumerate(origins(batch), base):
                found.setdefault((origin.producer, origin.number), []).append(offset)
        return found

    def check_once(self, producer: int, *, in_order: bool) -> None:
        """What it did not send again is there once; `in_order` also what was never acknowledged."""
        rows = {key[1]: offsets for key, offsets in self._found().items() if key[0] == producer}
        doubled = {number: offsets for number, offsets in rows.items() if len(offsets) > 1}
        if doubled:
            raise Violated(f"{self.name()}: producer {producer} has records in the log twice: {doubled}")
        if not in_order:
            rows = {number: offsets for number, offsets in rows.items() if (producer, number) in self.acknowledged}
        numbers = sorted(rows, key=lambda number: rows[number])
        if numbers != sorted(numbers):
            raise Violated(f"{self.name()}: records of producer {producer} are out of order: {numbers}")


class Truth:
    """All partitions."""

    def __init__(self, *special: PartitionTruth) -> None:
        """`special`: of partitions with rules of their own."""
        self._partitions = {each.partition: each for each in special}
        self.on_acknowledged: Callable[[Partition, int], None] = lambda partition, end: None
        """Called when somebody is told that everything below `end` of a partition is in its log."""

    def of(self, partition: Partition) -> PartitionTruth:
        known = self._partitions.get(partition)
        if known is None:
            known = self._partitions[partition] = PartitionTruth(partition)
        return known

    def acknowledged_now(self, producer: int, partition: Partition, numbers: range, offset: int, made_ms: int) -> None:
        self.on_acknowledged(partition, offset + len(numbers))
        self.of(partition).acknowledge(producer, numbers, offset, made_ms)

    def acknowledged_end(self, partition: Partition) -> int:
        known = self._partitions.get(partition)
        return known.acknowledged_end if known is not None else 0

    def known(self) -> Collection[Partition]:
        """What somebody has told of."""
        return self._partitions.keys()

    def partitions(self) -> list[PartitionTruth]:
        return list(self._partitions.values())
