"""All that was ever appended to a log, and what has to be true of it at any time."""

from dataclasses import dataclass

from kafkad.core.log.partition_log import PartitionLog
from tests.core.cleaning.cleaned_log import aborted_in, batches_of
from tests.core.log.fake_store import FakeStore


@dataclass(frozen=True)
class Record:
    key: bytes | None
    value: bytes | None
    transaction: int | None
    """Its number, if it is of a transaction."""


@dataclass(frozen=True)
class Marker:
    transaction: int
    commit: bool


class Truth:
    """By offset, with the offsets of what was gone at the last look."""

    def __init__(self) -> None:
        self.entries: dict[int, Record | Marker] = {}
        self.producers: dict[int, int] = {}
        """The producer of each transaction."""
        self.log_start = 0
        self.cleaned_to = 0
        """No pass has judged a record from here on."""
        self._gone: set[int] = set()

    def begin_transaction(self, producer: int) -> int:
        number = len(self.producers) + 1
        self.producers[number] = producer
        return number

    def forget_from(self, end: int) -> None:
        """What was not on disk is lost with the power."""
        self.entries = {offset: entry for offset, entry in self.entries.items() if offset < end}
        self._gone = {offset for offset in self._gone if offset < end}

    def open_transactions(self) -> dict[int, int]:
        """By producer."""
        ended = {entry.transaction for entry in self.entries.values() if isinstance(entry, Marker)}
        begun = {entry.transaction for entry in self.entries.values() if isinstance(entry, Record)}
        return {self.producers[number]: number for number in begun - ended if number is not None}

    def check(self, log: PartitionLog, store: FakeStore) -> None:
        outcomes = {entry.transaction: entry.commit for entry in self.entries.values() if isinstance(entry, Marker)}
        present = self._present(log, store, outcomes)
        assert not present & self._gone, "records have come back"
        latest: dict[bytes, int] = {}
        seen: dict[bytes, int] = {}
        for offset, entry in sorted(self.entries.items()):
            if isinstance(entry, Marker) or offset < self.log_start:
                continue
            outcome = True if entry.transaction is None else outcomes.get(entry.transaction)
            if offset >= self.cleaned_to and outcome is not False:
                assert offset in present, f"{offset} is lost from the part that no pass has reached"
            if entry.key is not None and outcome:
                latest[entry.key] = offset
                if offset in present:
                    seen[entry.key] = offset
        for key, offset in latest.items():
            entry = self.entries[offset]
            is_forgotten = isinstance(entry, Record) and entry.value is None and key not in seen
            assert is_forgotten or seen.get(key) == offset, f"the latest value of {key!r}, at {offset}, is lost"
        self._gone |= {offset for offset in self.entries if offset >= self.log_start and offset not in present}

    def _present(self, log: PartitionLog, store: FakeStore, outcomes: dict[int, bool]) -> set[int]:
        """The offsets of the records that are in the log; each is what was appended there."""
        aborted = aborted_in(store)
        present: set[int] = set()
        last = -1
        for batch in batches_of(log, log.log_end_offset + 1):
            assert batch.base_offset > last, "batches are out of order"
            is_hidden = batch.is_transactional and any(
                batch.producer_id == entry.producer_id and entry.first_offset <= batch.base_offset <= entry.last_offset
                for entry in aborted
            )
            for row in batch.rows:
                assert last < row.offset <= batch.last_offset, "records are out of order"
                last = row.offset
                entry = self.entries[row.offset]
                present.add(row.offset)
                if isinstance(entry, Record):
                    assert (row.key, row.value) == (entry.key, entry.value)
                    outcome = None if entry.transaction is None else outcomes.get(entry.transaction)
                    if outcome is not None and row.offset >= self.log_start:
                        assert is_hidden is not outcome, f"consumers take {row.offset} for another"
            last = max(last, batch.last_offset)
        return {offset for offset in present if offset >= self.log_start}
