"""A reader of committed records, as Kafka's consumers are: what the broker says was aborted is left out here."""

from collections.abc import Iterable

from kafkad.core.log.records.batch import read_header
from kafkad.core.log.records.end_markers import read_end_marker
from tests.simulation import requests
from tests.simulation.client import Client
from tests.simulation.consumer import NOT_NOW
from tests.simulation.requests import Fetched, Partition
from tests.simulation.scheduler import Scheduler, Violated
from tests.simulation.sockets import Port
from tests.simulation.transactions import Ledger
from tests.simulation.truth import origins, topic_mark, whole_batches


class CommittedReader(Client):
    """Reads its partitions once, from start to end, and writes down what it saw."""

    def __init__(
        self,
        scheduler: Scheduler,
        port: Port,
        ledger: Ledger,
        partitions: Iterable[Partition],
        *,
        max_wait_ms: int,
        max_bytes: int,
    ) -> None:
        super().__init__(scheduler, port, "committed")
        self._ledger = ledger
        self._max_wait_ms = max_wait_ms
        self._max_bytes = max_bytes
        self._positions = dict.fromkeys(partitions, 0)
        self._bounds: dict[Partition, tuple[int, int]] = {}
        """Last stable offset and high watermark, as told last."""
        self._aborted: dict[Partition, set[int]] = {partition: set() for partition in self._positions}
        for partition in self._positions:
            ledger.seen[partition] = []

    def has_read_everything(self) -> bool:
        """All is read, and no transaction holds anything back."""
        ends = self._ledger.ends
        return all(at > ends.get(key, -1) and self._bounds.get(key) == (at, at) for key, at in self._positions.items())

    def step(self) -> None:
        if self.open:
            return
        if not self.is_connected:
            self.connect()
        asked = dict(self._positions)

        def make(correlation: int) -> bytes:
            return requests.fetch(
                asked,
                correlation,
                max_wait_ms=self._max_wait_ms,
                min_bytes=1,
                max_bytes=self._max_bytes,
                committed=True,
            )

        def answered(body: bytes | None) -> None:
            found = requests.read_fetched(body).partitions if body is not None else {}
            for partition, row in found.items():
                if row.error == 0:
                    self._take(partition, row)
                elif row.error not in NOT_NOW:
                    raise Violated(f"{self.name} got error {row.error} at {asked[partition]} of {partition}")
            self.wake_in(20 if any(row.error for row in found.values()) else 1)
            for row in found.values():
                self.refused(row.error)

        self.ask(f"committed records of {asked}", make, answered)

    def refused(self, error: int) -> None:
        """Somebody else is to be asked, perhaps."""

    def _take(self, partition: Partition, row: Fetched) -> None:
        if row.last_stable > row.high_watermark:
            raise Violated(f"{partition}: the last stable offset {row.last_stable} is beyond {row.high_watermark}")
        before = self._bounds.get(partition, (0, 0))
        if row.last_stable < before[0] and self.is_connected:
            raise Violated(f"{partition}: the last stable offset went from {before[0]} to {row.last_stable}")
        self._bounds[partition] = row.last_stable, row.high_watermark
        coming = sorted(row.aborted, key=lambda each: each[1])
        aborted = self._aborted[partition]
        for base, last, batch in whole_batches(row.records):
            if base >= row.last_stable:
                raise Violated(f"{partition}: {base} was read, the last stable offset is {row.last_stable}")
            while coming and coming[0][1] <= last:
                aborted.add(coming.pop(0)[0])
            if last >= self._positions[partition]:
                self._see(partition, memoryview(batch), aborted)
                self._positions[partition] = last + 1

    def _see(self, partition: Partition, batch: memoryview, aborted: set[int]) -> None:
        header = read_header(batch)
        if header.is_control:
            marker = read_end_marker(batch)
            if marker is not None and not marker.commit:
                aborted.discard(header.producer_id)
            return
        if header.is_transactional and header.producer_id in aborted:
            return
        for origin in origins(bytes(batch)):
            if (origin.topic, origin.partition) != (topic_mark(partition[0]), partition[1]):
                raise Violated(f"{partition} has a record of another partition")
            self._ledger.seen[partition].append((origin.producer, origin.number))
