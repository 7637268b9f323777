"""How does a transaction end? The decision is written first, then the markers, then the completion.

A decision is final: failed steps are retried, also by the next coordinator. Markers are requested only after the
decision is committed, so partitions never get markers of two decisions.
"""

from collections.abc import Callable, Hashable
from dataclasses import replace

from kafkad.core.coordinator.producer_ids import ProducerIdManager
from kafkad.core.coordinator.shard import Moment, Outcome, TxnMarkersToSend
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.transactions import transitions
from kafkad.core.transactions.config import TransactionConfig, supports_epoch_bump, value_version
from kafkad.core.transactions.metadata_cache import TransactionMetadataCache
from kafkad.core.transactions.records import AnyTransactionRecord, TransactionRecord
from kafkad.core.transactions.state import TransactionState, is_epoch_exhausted
from kafkad.core.types import NO_PRODUCER_ID

Result = Outcome[AnyTransactionRecord]
Timers = list[tuple[Hashable, int | None]]
Replies = Callable[[TransactionRecord], list[tuple[int, object]]]
"""The replies after the decision is committed, for the future record of the completed transaction."""

COMPLETION_RETRY_MS = 100
"""Pause before the record of a completed transaction is written again."""
ENDLESS_TIMEOUT_MS = 0x7FFFFFFF
"""Transactions with this timeout never time out (KIP-939)."""


def timeout_key(transactional_id: str) -> tuple[str, str]:
    return ("timeout", transactional_id)


def completion_key(transactional_id: str) -> tuple[str, str]:
    return ("completion", transactional_id)


def timeout_timer(record: TransactionRecord, moment: Moment) -> tuple[tuple[str, str], int | None]:
    """The timer that aborts an open transaction, 1 ms after the timeout."""
    if record.timeout_ms == ENDLESS_TIMEOUT_MS:
        return timeout_key(record.transactional_id), None
    remaining_ms = max(0, record.start_ms + record.timeout_ms + 1 - moment.wall_ms)
    return timeout_key(record.transactional_id), moment.monotonic_ms + remaining_ms


class Decisions:
    """Changes the metadata cache of its shard. `config` is replaced when the feature level changes."""

    def __init__(
        self,
        cache: TransactionMetadataCache,
        producer_ids: ProducerIdManager,
        coordinator_epoch: int,
        config: TransactionConfig,
    ) -> None:
        self.config = config
        self._cache = cache
        self._producer_ids = producer_ids
        self._coordinator_epoch = coordinator_epoch

    def take_producer_id(self) -> int:
        """Raises `KafkaError` if none is available at the moment."""
        producer_id = self._producer_ids.take()
        if producer_id is None:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "no producer id is available yet")
        return producer_id

    def write(self, record: TransactionRecord) -> TransactionRecord:
        """`record` in the version of the log; its step is pending from now on."""
        version = value_version(self.config.transaction_version)
        record = record if record.value_version == version else replace(record, value_version=version)
        self._cache.begin(record.transactional_id, record.state)
        return record

    def check_client(self, client_version: int) -> None:
        """Raises `KafkaError` if the record version can't store the client's version, as the feature level is not
        finalized."""
        if client_version and not value_version(self.config.transaction_version):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"transaction version {client_version} is not finalized")

    # Decisions.

    def decide(
        self, current: TransactionRecord, is_commit: bool, client_version: int, moment: Moment, replies: Replies
    ) -> Result:
        """Write the decision of an EndTxn. Raises `KafkaError` before any change."""
        self.check_client(client_version)
        state = TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT
        record = self._prepare(current, state, client_version, moment)
        return self._write_decision(record, None, replies(transitions.completed(record, moment.wall_ms)), [])

    def abort_open(self, current: TransactionRecord, moment: Moment, *, is_retried: bool = False) -> Result:
        """Abort an open transaction, as the coordinator's own decision, and fence its producer. Raises `KafkaError`.

        `is_retried`: after a failed write the timeout timer is set again.
        """
        version = self.config.transaction_version
        fence: TransactionRecord | None = None
        if not supports_epoch_bump(version):
            has_failed = self._cache.has_failed_fence(current.transactional_id)
            # The record then has version 0, at any finalized level.
            version, fence = 0, transitions.fenced(current, has_failed_fence=has_failed)
        record = self._prepare(fence or current, TransactionState.PREPARE_ABORT, version, moment)
        retry = timeout_key(current.transactional_id), moment.monotonic_ms + self.config.abort_interval_ms
        return self._write_decision(record, fence, [], [retry] if is_retried else [])

    def _prepare(
        self, current: TransactionRecord, state: TransactionState, version: int, moment: Moment
    ) -> TransactionRecord:
        is_last = supports_epoch_bump(version) and is_epoch_exhausted(current.producer_epoch)
        next_producer_id = self.take_producer_id() if is_last else NO_PRODUCER_ID
        return self.write(transitions.prepared(current, state, version, next_producer_id, moment.wall_ms))

    def _write_decision(
        self,
        record: TransactionRecord,
        fence: TransactionRecord | None,
        replies: list[tuple[int, object]],
        retry_timers: Timers,
    ) -> Result:
        def after(code: ErrorCode, moment: Moment) -> Result:
            if code is ErrorCode.NONE:
                return self._apply_decision(record, moment)
            if self._cache.is_written(record):
                # The decision is in the log, and is applied when it is committed.
                return Outcome(after=after)
            self._cache.settle(record.transactional_id)
            if fence is not None:
                self._cache.add_failed_fence(fence)
            return Outcome(timers=retry_timers)

        timers: Timers = [(timeout_key(record.transactional_id), None)]
        return Outcome(records=[record], replies=replies, timers=timers, after=after)

    # Markers and completion.

    def _apply_decision(self, record: TransactionRecord, moment: Moment) -> Result:
        self._cache.begin(record.transactional_id, record.state.completed)
        if not record.partitions:
            return self._complete(record, moment)
        return Outcome(markers=[self._markers(record)])

    def _markers(self, record: TransactionRecord) -> TxnMarkersToSend:
        return TxnMarkersToSend(
            transactional_id=record.transactional_id,
            producer_id=record.producer_id,
            producer_epoch=record.producer_epoch,
            coordinator_epoch=self._coordinator_epoch,
            is_commit=record.state is TransactionState.PREPARE_COMMIT,
            partitions=frozenset(record.partitions),
            transaction_version=record.client_transaction_version,
        )

    def resume(self, record: TransactionRecord, moment: Moment, outcome: Result) -> None:
        """Continue a decision that an earlier coordinator left incomplete."""
        self._cache.begin(record.transactional_id, record.state.completed)
        if record.partitions:
            outcome.markers.append(self._markers(record))
        else:
            outcome.timers.append((completion_key(record.transactional_id), moment.monotonic_ms))

    def markers_written(self, transactional_id: str, producer_epoch: int, moment: Moment) -> Result:
        record = self._cache.get(transactional_id)
        if record is None or record.producer_epoch != producer_epoch:
            return Outcome()
        return self.complete(transactional_id, moment)

    def complete(self, transactional_id: str, moment: Moment) -> Result:
        """Write the completion, if that is the pending step."""
        record = self._cache.get(transactional_id)
        if record is None or not record.state.is_prepared:
            return Outcome()
        if self._cache.pending(transactional_id) is not record.state.completed:
            return Outcome()
        return self._complete(record, moment)

    def _complete(self, current: TransactionRecord, moment: Moment) -> Result:
        record = self.write(transitions.completed(current, moment.wall_ms))
        key = completion_key(record.transactional_id)

        def after(code: ErrorCode, now: Moment) -> Result:
            if self._cache.is_written(record):
                self._cache.settle(record.transactional_id)
                return Outcome()
            # The step stays pending until the timer retries it.
            return Outcome(timers=[(key, now.monotonic_ms + COMPLETION_RETRY_MS)])

        return Outcome(records=[record], timers=[(key, None)], after=after)
