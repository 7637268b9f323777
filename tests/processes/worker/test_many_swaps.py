"""A log whose segments are replaced a thousand times while clients read it: from its start, in both isolation levels,
with a fetch session and without, and by time.
"""

from collections.abc import Callable, Iterator
from random import Random

import pytest

from kafkad.core.log.records.record import NewRecord, build_batch
from tests.core.cleaning.naive import read_batches
from tests.processes.pieces import TOPIC, Client, Pieces
from tests.processes.worker.played_cleaner import NOW, Cleaner, log_of
from tests.simulation import requests
from tests.tools.raw_requests import fetch, list_offsets, produce, read_fetched, read_produced

SWAPS = 1000
KEYS = "abcdefgh"


class _Written:
    """Every record, by its offset; a record's time is its offset after `NOW`."""

    def __init__(self) -> None:
        self.values: list[str] = []
        self.latest: dict[str, int] = {}

    def next_batch(self, random: Random) -> bytes:
        records = []
        for key in random.choices(KEYS, k=3):
            offset = len(self.values)
            self.values.append(f"{key}{offset}")
            self.latest[key] = offset
            records.append(NewRecord(NOW + offset, key.encode(), self.values[-1].encode()))
        return build_batch(records)


class _Reader:
    """Reads from an offset to the end, again and again; its requests are under way while files change."""

    def __init__(self, client: Client, written: _Written) -> None:
        self.client = client
        self.rounds = 0
        self._written = written
        self._offset = 0
        self._seen: dict[str, int] = {}

    def begin(self) -> None:
        self.client.send(fetch({(TOPIC, 0): self._offset}))

    def _records(self) -> bytes:
        answer = read_fetched(self.client.reply())[TOPIC, 0]
        assert answer.error == 0
        return answer.records

    def end(self) -> None:
        """Nothing is served that was not written, and at the end of the log the latest of each key has been there."""
        for batch in read_batches(self._records()):
            for row in batch.rows:
                if row.offset >= self._offset:
                    value = self._written.values[row.offset]
                    assert (row.value or b"").decode() == value
                    assert row.timestamp == NOW + row.offset
                    self._offset = row.offset + 1
                    self._seen[value[0]] = row.offset
            self._offset = max(self._offset, batch.last_offset + 1)
        if self._offset == len(self._written.values):
            assert self._seen == self._written.latest
            self.rounds += 1
            self._offset = 0
            self._seen.clear()


class _ReaderInSession(_Reader):
    """Reads what is committed, in one fetch session all the time."""

    def __init__(self, client: Client, written: _Written) -> None:
        super().__init__(client, written)
        self._session = self._epoch = 0

    def begin(self) -> None:
        self.client.send(
            requests.fetch(
                {(TOPIC, 0): self._offset},
                1,
                max_wait_ms=0,
                min_bytes=1,
                max_bytes=1 << 20,
                session=self._session,
                epoch=self._epoch,
                committed=True,
            )
        )
        self._epoch += 1

    def _records(self) -> bytes:
        reply = requests.read_fetched(self.client.reply())
        assert reply.error == 0
        assert self._session in (0, reply.session)
        self._session = reply.session
        if (TOPIC, 0) not in reply.partitions:
            # It has nothing to tell.
            return b""
        answer = reply.partitions[TOPIC, 0]
        assert (answer.error, answer.aborted) == (0, ())
        return answer.records


def _search_by_time(client: Client, written: _Written, offset: int) -> None:
    """What is found is there, and no record that has to be there is passed over."""
    found = int.from_bytes(client.ask(list_offsets(TOPIC, 0, NOW + offset))[-8:], "big")
    assert offset <= found <= min(each for each in written.latest.values() if each >= offset)


@pytest.fixture
def pieces(make_pieces: Callable[..., Pieces]) -> Pieces:
    return make_pieces(log_cleanup_policy="compact", log_segment_delete_delay_ms="0")


@pytest.fixture
def cleaner(pieces: Pieces, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cleaner]:
    played = Cleaner(pieces, monkeypatch)
    yield played
    played.close()


def test_readers_work_through_a_thousand_swaps(pieces: Pieces, cleaner: Cleaner) -> None:
    random = Random(1)
    written = _Written()
    writer, by_time = pieces.connect(), pieces.connect()
    readers = [kind(pieces.connect(), written) for kind in (_Reader, _Reader, _ReaderInSession)]
    partition_log = log_of(pieces)

    def read() -> None:
        for reader in readers:
            reader.begin()

    while partition_log.rewrites < SWAPS:
        assert read_produced(writer.ask(produce({(TOPIC, 0): written.next_batch(random)})))[TOPIC, 0].error == 0
        end = len(written.values)
        partition_log.roll(end, NOW)
        partition_log.flush()
        cleaner.run(end, read)
        for reader in readers:
            reader.end()
            reader.begin()
            reader.end()
        _search_by_time(by_time, written, random.randrange(max(written.latest.values()) + 1))
    assert all(reader.rounds > SWAPS // 10 for reader in readers)
    pieces.settle()
    left = [path.name for path in pieces.directory().iterdir()]
    assert not [name for name in left if name.endswith((".cleaned", ".swap"))]
