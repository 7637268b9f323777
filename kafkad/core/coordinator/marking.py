"""Which transaction markers are not written yet, and which worker or other broker gets a request for them now?

The rules behind Apache Kafka's TransactionMarkerChannelManager.

An order ends when each partition of the transaction has its marker or is gone. Until then it is never forgotten: when
the owner of a partition dies, refuses or is missing it is asked again, as a marker may be written twice.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kafkad.core.coordinator.shard import TxnMarkersToSend
from kafkad.core.errors import ErrorCode
from kafkad.core.quoting import logged

RETRY_MS = 100
"""Pause between a failed try and the next. After `PATIENT_TRIES` without a marker written it doubles each time."""
PATIENT_TRIES = 10
MAX_RETRY_MS = 3_200

Partition = tuple[str, int]


HERE = -1
"""This broker."""


class Place(NamedTuple):
    """The worker that writes a partition, -1 while there is none; or the other broker that leads it."""

    worker: int
    slot: int
    short_id: int
    broker: int = HERE


Places = Callable[[str, int], Place | None]
"""None: the partition does not exist (any more)."""


class _Order:
    """The markers of one transaction, for the shard of one internal partition. Mutable and slotted."""

    __slots__ = ("missing", "source", "wanted")

    def __init__(self, source: int, wanted: TxnMarkersToSend) -> None:
        self.source = source
        self.wanted = wanted
        self.missing: set[Partition] = set(wanted.partitions)


class MarkerRequest(NamedTuple):
    """One message to one worker, or to another broker. Its answer carries `marker_id`, and a code for each partition in
    this order.
    """

    marker_id: int
    worker: int
    wanted: TxnMarkersToSend
    slots: list[tuple[int, int]]
    partitions: list[Partition]
    broker: int = HERE


class MarkersComplete(NamedTuple):
    """For the shard of the internal partition in slot `source`: all partitions are done."""

    source: int
    transactional_id: str
    producer_epoch: int


class MarkersAdvanced(NamedTuple):
    """These partitions have their markers or are gone; other partitions of the transaction are still missing."""

    source: int
    transactional_id: str
    producer_epoch: int
    partitions: frozenset[Partition]


class _Sent(NamedTuple):
    order: _Order
    worker: int
    broker: int
    partitions: list[Partition]


class Marking:
    """All orders of one process. `take_requests` gives requests for workers; the other two `take_…` are for shards."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._orders: dict[tuple[int, str], _Order] = {}
        self._sent: dict[int, _Sent] = {}
        self._fresh: list[tuple[_Order, set[Partition]]] = []
        self._again: list[tuple[_Order, set[Partition]]] = []
        """Partitions that wait for `retry_at_ms`."""
        self._finished: list[MarkersComplete] = []
        self._advanced: list[MarkersAdvanced] = []
        self._next_id = 1
        self.retry_at_ms: int | None = None
        self._tries = 0
        self.refused: list[str] = []
        """Log lines about markers that their partition refused. The process that logs them empties the list."""

    def __len__(self) -> int:
        return len(self._orders)

    @property
    def is_busy(self) -> bool:
        """Whether there is something to send or to report at once."""
        return bool(self._fresh) or bool(self._finished) or bool(self._advanced)

    def order(self, source: int, wanted: TxnMarkersToSend) -> None:
        """The shard in slot `source` has decided a transaction. A new order for the same transactional id replaces the
        first."""
        order = self._orders[source, wanted.transactional_id] = _Order(source, wanted)
        self._fresh.append((order, set(wanted.partitions)))

    def forget(self, source: int) -> None:
        """The shard is gone: its successor reads the decisions, and orders their markers again."""
        for key in [key for key in self._orders if key[0] == source]:
            del self._orders[key]
        self._advanced = [each for each in self._advanced if each.source != source]

    def take_requests(self, now_ms: int) -> list[MarkerRequest]:
        """The requests to send now; partitions without a worker wait for the next try."""
        due, self._fresh = self._fresh, []
        if self.retry_at_ms is not None and self.retry_at_ms <= now_ms:
            self.retry_at_ms = None
            due += self._again
            self._again = []
        requests: list[MarkerRequest] = []
        for order, partitions in due:
            if self._is_current(order):
                before = set(order.missing)
                self._plan(order, partitions, requests, now_ms)
                self._look(order, before - order.missing)
        return requests

    def _plan(self, order: _Order, partitions: set[Partition], requests: list[MarkerRequest], now_ms: int) -> None:
        by_writer: dict[tuple[int, int], list[tuple[Partition, Place]]] = {}
        for partition in sorted(partitions & order.missing):
            place = self._places(*partition)
            if place is None:
                order.missing.discard(partition)
            elif place.worker < 0 and place.broker == HERE:
                self._retry(order, {partition}, now_ms)
            else:
                by_writer.setdefault((place.worker, place.broker), []).append((partition, place))
        for (worker, broker), rows in by_writer.items():
            marker_id = self._next_id
            self._next_id += 1
            asked = [partition for partition, _ in rows]
            self._sent[marker_id] = _Sent(order, worker, broker, asked)
            slots = [(place.slot, place.short_id) for _, place in rows]
            requests.append(MarkerRequest(marker_id, worker, order.wanted, slots, asked, broker))

    def answered(self, marker_id: int, results: Sequence[int], now_ms: int) -> None:
        """The answer of a worker or broker: one code for each marker."""
        sent = self._sent.pop(marker_id, None)
        if sent is None or not self._is_current(sent.order):
            return
        order = sent.order
        again: set[Partition] = set()
        done: set[Partition] = set()
        for partition, code in zip(sent.partitions, results, strict=True):
            if code != ErrorCode.NONE and code not in _REFUSED:
                again.add(partition)
                continue
            if code == ErrorCode.NONE:
                self._tries = 0
            else:
                # The partition has a newer producer epoch already: nothing of this transaction can be open any more.
                topic, index = partition
                name = ErrorCode(code).name
                who = logged(order.wanted.transactional_id)
                line = f"{who}: {topic}-{index} has refused the transaction marker: {name}"
                self.refused.append(line)
            done.add(partition)
        order.missing -= done
        if again:
            self._retry(order, again, now_ms)
        self._look(order, done)

    def worker_lost(self, worker: int, now_ms: int) -> None:
        """Its requests may have been carried out or not: the next worker gets them again."""
        for marker_id, sent in list(self._sent.items()):
            if sent.broker == HERE and sent.worker == worker:
                self.lost(marker_id, now_ms)

    def lost(self, marker_id: int, now_ms: int) -> None:
        """The request may have been carried out or not."""
        sent = self._sent.pop(marker_id, None)
        if sent is not None:
            self._retry(sent.order, set(sent.partitions), now_ms)

    def take_finished(self) -> list[MarkersComplete]:
        finished, self._finished = self._finished, []
        return finished

    def take_advanced(self) -> list[MarkersAdvanced]:
        advanced, self._advanced = self._advanced, []
        return advanced

    def _retry(self, order: _Order, partitions: set[Partition], now_ms: int) -> None:
        self._again.append((order, partitions))
        if self.retry_at_ms is None:
            self.retry_at_ms = now_ms + min(RETRY_MS << max(0, self._tries - PATIENT_TRIES), MAX_RETRY_MS)
            self._tries += 1

    def _is_current(self, order: _Order) -> bool:
        return self._orders.get((order.source, order.wanted.transactional_id)) is order

    def _look(self, order: _Order, done: set[Partition]) -> None:
        """Report the progress of the order, after `done`."""
        wanted = order.wanted
        if order.missing:
            if done:
                whose = (order.source, wanted.transactional_id, wanted.producer_epoch)
                self._advanced.append(MarkersAdvanced(*whose, frozenset(done)))
        elif self._is_current(order):
            del self._orders[order.source, wanted.transactional_id]
            self._finished.append(MarkersComplete(order.source, wanted.transactional_id, wanted.producer_epoch))


_REFUSED = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
"""The partition will never take this marker. After any other error it may."""
