"""How does a transaction end? First its decision is written, then the markers, then that it is complete.

A decision is never undone: failed steps are tried again, also by the next coordinator. Markers are ordered only when
the decision is safe, so that partitions never see two decisions.
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
"""The replies for when the decision is safe, computed from the future record of the completed transaction."""

COMPLETION_RETRY_MS = 100
"""Pause before the record of a completed transaction is tried again."""
ENDLESS_TIMEOUT_MS = 0x7FFFFFFF
"""A transaction with this timeout never times out (KIP-939)."""


def timeout_key(transactional_id: str) -> tuple[str, str]:
    return ("timeout", transactional_id)


def completion_key(transactional_id: str) -> tuple[str, str]:
    return ("completion", transactional_id)


def timeout_timer(record: TransactionRecord, moment: Moment) -> tuple[tuple[str, str], int | None]:
    """The timer that aborts an open transaction: it is due after the timeout, not at it."""
    if record.timeout_ms == ENDLESS_TIMEOUT_MS:
        return timeout_key(record.transactional_id), None
    left_ms = max(0, record.start_ms + record.timeout_ms + 1 - moment.wall_ms)
    return timeout_key(record.transactional_id), moment.monotonic_ms + left_ms


class Decisions:
    """Works on the metadata cache of its shard. `config` is replaced when the feature level changes."""

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
        """Raises KafkaError when there is none at the moment."""
        producer_id = self._producer_ids.take()
        if producer_id is None:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "no producer id at hand yet")
        return producer_id

    def write(self, record: TransactionRecord) -> TransactionRecord:
        """`record` in the version in which it is written; marks its step as pending."""
        version = value_version(self.config.transaction_version)
        record = record if record.value_version == version else replace(record, value_version=version)
        self._cache.begin(record.transactional_id, record.state)
        return record

    def check_client(self, client_version: int) -> None:
        """Raises KafkaError when the record version can't store the client's version, as the feature is not
        finalized."""
        if client_version and not value_version(self.config.transaction_version):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"transaction version {client_version} is not finalized")

    # Deciding.

    def decide(
        self, current: TransactionRecord, is_commit: bool, client_version: int, moment: Moment, replies: Replies
    ) -> Result:
        """Raises KafkaError before anything is changed."""
        self.check_client(client_version)
        state = TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT
        record = self._prepare(current, state, client_version, moment)
        return self._write_decision(record, None, replies(transitions.completed(record, moment.wall_ms)), [])

    def abort_open(self, current: TransactionRecord, moment: Moment, *, retries: bool = False) -> Result:
        """The coordinator itself aborts an open transaction and fences its producer. Raises KafkaError.

        `retries`: if the abort can't be written the timeout timer is set again.
        """
        version = self.config.transaction_version
        fence: TransactionRecord | None = None
        if not supports_epoch_bump(version):
            has_failed = self._cache.has_failed_fence(current.transactional_id)
            # In this case the record has version 0, whatever the finalized level is.
            version, fence = 0, transitions.fenced(current, has_failed_before=has_failed)
        record = self._prepare(fence or current, TransactionState.PREPARE_ABORT, version, moment)
        again = timeout_key(current.transactional_id), moment.monotonic_ms + self.config.abort_interval_ms
        return self._write_decision(record, fence, [], [again] if retries else [])

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
        if_refused: Timers,
    ) -> Result:
        def after(code: ErrorCode, moment: Moment) -> Result:
            if code is ErrorCode.NONE:
                return self._carry_out(record, moment)
            if self._cache.is_written(record):
                # It is written and will be carried out, but only when it is safe.
                return Outcome(after=after)
            self._cache.settle(record.transactional_id)
            if fence is not None:
                self._cache.fence_failed(fence)
            return Outcome(timers=if_refused)

        timers: Timers = [(timeout_key(record.transactional_id), None)]
        return Outcome(records=[record], replies=replies, timers=timers, after=after)

    # Carrying out.

    def _carry_out(self, record: TransactionRecord, moment: Moment) -> Result:
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

    def resume(self, record: TransactionRecord, moment: Moment, onto: Result) -> None:
        """Carry out a decision that an earlier coordinator left unfinished."""
        self._cache.begin(record.transactional_id, record.state.completed)
        if record.partitions:
            onto.markers.append(self._markers(record))
        else:
            onto.timers.append((completion_key(record.transactional_id), moment.monotonic_ms))

    def markers_written(self, transactional_id: str, producer_epoch: int, moment: Moment) -> Result:
        record = self._cache.get(transactional_id)
        if record is None or record.producer_epoch != producer_epoch:
            return Outcome()
        return self.complete(transactional_id, moment)

    def complete(self, transactional_id: str, moment: Moment) -> Result:
        """Write that the transaction is complete, if only that is missing."""
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
            # It stays pending until the timer tries again.
            return Outcome(timers=[(key, now.monotonic_ms + COMPLETION_RETRY_MS)])

        return Outcome(records=[record], timers=[(key, None)], after=after)
