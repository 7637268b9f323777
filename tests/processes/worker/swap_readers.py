"""Clients that read a compacted log again and again while its segments are replaced, and believe nothing they get."""

from random import Random

from kafkad.core.log.records.record import NewRecord, build_batch
from tests.core.cleaning.naive import read_batches
from tests.processes.pieces import TOPIC, Client
from tests.processes.worker.played_cleaner import NOW
from tests.simulation import requests
from tests.tools.raw_requests import fetch, read_fetched

KEYS = "abcdefgh"


class Written:
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


class Reader:
    """Reads from an offset to the end, again and again; its requests are under way while files change."""

    def __init__(self, client: Client, written: Written) -> None:
        self.client = client
        self.rounds = 0
        self.written = written
        self.offset = 0
        self.seen: dict[str, int] = {}

    def begin(self) -> None:
        self.client.send(fetch({(TOPIC, 0): self.offset}))

    def _records(self) -> bytes:
        answer = read_fetched(self.client.reply())[TOPIC, 0]
        assert answer.error == 0
        return answer.records

    def end(self) -> None:
        """Nothing is served that was not written, and at the end of the log the latest of each key has been there."""
        for batch in read_batches(self._records()):
            for row in batch.rows:
                if row.offset >= self.offset:
                    value = self.written.values[row.offset]
                    assert (row.value or b"").decode() == value
                    assert row.timestamp == NOW + row.offset
                    self.offset = row.offset + 1
                    self.seen[value[0]] = row.offset
            self.offset = max(self.offset, batch.last_offset + 1)
        if self.offset == len(self.written.values):
            assert self.seen == self.written.latest
            self.rounds += 1
            self.offset = 0
            self.seen.clear()


class ReaderInSession(Reader):
    """Reads what is committed, in one fetch session all the time."""

    def __init__(self, client: Client, written: Written) -> None:
        super().__init__(client, written)
        self._session = self._epoch = 0

    def begin(self) -> None:
        self.client.send(
            requests.fetch(
                {(TOPIC, 0): self.offset},
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
