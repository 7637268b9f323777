"""Tracks the transaction markers that are not written yet, and plans requests for them to workers and other brokers.

These are the rules of Apache Kafka's TransactionMarkerChannelManager.

An order ends when each partition of the transaction has its marker or is deleted. When the owner of a partition fails,
returns an error or is missing, the request is repeated: a marker may be written twice.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kafkad.core.coordinator.shard import TxnMarkersToSend
from kafkad.core.errors import ErrorCode
from kafkad.core.quoting import logged

RETRY_MS = 100
"""The pause between two attempts. After `CONSTANT_RETRIES` without a written marker it doubles each time."""
CONSTANT_RETRIES = 10
MAX_RETRY_MS = 3_200

Partition = tuple[str, int]


HERE = -1
"""This broker."""


class MarkerWriter(NamedTuple):
    """The worker that writes a partition, -1 while there is none, or the other broker that leads it."""

    worker: int
    slot: int
    short_id: int
    broker: int = HERE


FindMarkerWriter = Callable[[str, int], MarkerWriter | None]
"""None: the partition does not exist."""


class _Order:
    """The markers of one transaction, for the shard of one internal partition. Mutable and slotted."""

    __slots__ = ("missing", "requested", "source")

    def __init__(self, source: int, requested: TxnMarkersToSend) -> None:
        self.source = source
        self.requested = requested
        self.missing: set[Partition] = set(requested.partitions)


class MarkerRequest(NamedTuple):
    """A message to one worker or to another broker. The response has `marker_id`, and a code for each partition in this
    order.
    """

    marker_id: int
    worker: int
    requested: TxnMarkersToSend
    slots: list[tuple[int, int]]
    partitions: list[Partition]
    broker: int = HERE


class MarkersComplete(NamedTuple):
    """For the shard of the internal partition in slot `source`: all partitions are complete."""

    source: int
    transactional_id: str
    producer_epoch: int


class MarkersAdvanced(NamedTuple):
    """These partitions have their markers or are deleted; others of the transaction are still missing."""

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
    """All orders of one process. `take_requests` returns requests for workers; the other `take_…` are for shards."""

    def __init__(self, find_writer: FindMarkerWriter) -> None:
        self._find_writer = find_writer
        self._orders: dict[tuple[int, str], _Order] = {}
        self._sent: dict[int, _Sent] = {}
        self._new: list[tuple[_Order, set[Partition]]] = []
        self._to_retry: list[tuple[_Order, set[Partition]]] = []
        """Partitions that wait until `retry_at_ms`."""
        self._finished: list[MarkersComplete] = []
        self._advanced: list[MarkersAdvanced] = []
        self._next_id = 1
        self.retry_at_ms: int | None = None
        self._tries = 0
        self.rejected: list[str] = []
        """Log lines about markers that their partitions rejected. The process that logs them empties the list."""

    def __len__(self) -> int:
        return len(self._orders)

    @property
    def is_busy(self) -> bool:
        """Whether there are requests to send or results to report now."""
        return bool(self._new) or bool(self._finished) or bool(self._advanced)

    def order(self, source: int, requested: TxnMarkersToSend) -> None:
        """The shard in slot `source` has decided a transaction. A new order replaces any of its transactional id."""
        order = self._orders[source, requested.transactional_id] = _Order(source, requested)
        self._new.append((order, set(requested.partitions)))

    def forget(self, source: int) -> None:
        """The shard was unloaded: its successor reads the decisions, and orders their markers again."""
        for key in [key for key in self._orders if key[0] == source]:
            del self._orders[key]
        self._advanced = [each for each in self._advanced if each.source != source]

    def take_requests(self, now_ms: int) -> list[MarkerRequest]:
        """The requests to send now; partitions without a worker wait for the next attempt."""
        due, self._new = self._new, []
        if self.retry_at_ms is not None and self.retry_at_ms <= now_ms:
            self.retry_at_ms = None
            due += self._to_retry
            self._to_retry = []
        requests: list[MarkerRequest] = []
        for order, partitions in due:
            if self._is_current(order):
                before = set(order.missing)
                self._plan(order, partitions, requests, now_ms)
                self._report(order, before - order.missing)
        return requests

    def _plan(self, order: _Order, partitions: set[Partition], requests: list[MarkerRequest], now_ms: int) -> None:
        by_writer: dict[tuple[int, int], list[tuple[Partition, MarkerWriter]]] = {}
        for partition in sorted(partitions & order.missing):
            writer = self._find_writer(*partition)
            if writer is None:
                order.missing.discard(partition)
            elif writer.worker < 0 and writer.broker == HERE:
                self._retry(order, {partition}, now_ms)
            else:
                by_writer.setdefault((writer.worker, writer.broker), []).append((partition, writer))
        for (worker, broker), rows in by_writer.items():
            marker_id = self._next_id
            self._next_id += 1
            sent = [partition for partition, _ in rows]
            self._sent[marker_id] = _Sent(order, worker, broker, sent)
            slots = [(writer.slot, writer.short_id) for _, writer in rows]
            requests.append(MarkerRequest(marker_id, worker, order.requested, slots, sent, broker))

    def response_received(self, marker_id: int, results: Sequence[int], now_ms: int) -> None:
        """The response of a worker or broker has one code for each marker."""
        sent = self._sent.pop(marker_id, None)
        if sent is None or not self._is_current(sent.order):
            return
        order = sent.order
        to_retry: set[Partition] = set()
        done: set[Partition] = set()
        for partition, code in zip(sent.partitions, results, strict=True):
            if code != ErrorCode.NONE and code not in _PERMANENT:
                to_retry.add(partition)
                continue
            if code == ErrorCode.NONE:
                self._tries = 0
            else:
                # The partition has a newer producer epoch: no transaction of this one is open.
                topic, index = partition
                name = ErrorCode(code).name
                transactional_id = logged(order.requested.transactional_id)
                line = f"transaction marker of {transactional_id} rejected by {topic}-{index}: {name}"
                self.rejected.append(line)
            done.add(partition)
        order.missing -= done
        if to_retry:
            self._retry(order, to_retry, now_ms)
        self._report(order, done)

    def worker_lost(self, worker: int, now_ms: int) -> None:
        """The worker ended, and may have handled its requests or not: the next incarnation gets them again."""
        for marker_id, sent in list(self._sent.items()):
            if sent.broker == HERE and sent.worker == worker:
                self.lost(marker_id, now_ms)

    def lost(self, marker_id: int, now_ms: int) -> None:
        """The request may have been handled or not: it is repeated."""
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
        self._to_retry.append((order, partitions))
        if self.retry_at_ms is None:
            self.retry_at_ms = now_ms + min(RETRY_MS << max(0, self._tries - CONSTANT_RETRIES), MAX_RETRY_MS)
            self._tries += 1

    def _is_current(self, order: _Order) -> bool:
        return self._orders.get((order.source, order.requested.transactional_id)) is order

    def _report(self, order: _Order, done: set[Partition]) -> None:
        """Report the progress of the order after `done`."""
        requested = order.requested
        if order.missing:
            if done:
                key = (order.source, requested.transactional_id, requested.producer_epoch)
                self._advanced.append(MarkersAdvanced(*key, frozenset(done)))
        elif self._is_current(order):
            del self._orders[order.source, requested.transactional_id]
            self._finished.append(MarkersComplete(order.source, requested.transactional_id, requested.producer_epoch))


_PERMANENT = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
"""Errors after which the partition will never accept this marker. After any other error it may."""
