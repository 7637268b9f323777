"""The shard of one partition of `__transaction_state`: the effects of each request, timer and event.

Replies wait until their records are committed. Meanwhile other requests for the id get CONCURRENT_TRANSACTIONS.
"""

from collections.abc import Callable, Generator, Hashable, Sequence
from itertools import islice

from kafkad.core.coordinator.partitioning import partition_for
from kafkad.core.coordinator.producer_ids import ProducerIdManager
from kafkad.core.coordinator.shard import Moment, Outcome, Producer
from kafkad.core.coordinator.topics import Topics
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.ports import CompilePattern
from kafkad.core.quoting import logged
from kafkad.core.transactions import listing, transitions
from kafkad.core.transactions.config import TransactionConfig, supports_epoch_bump
from kafkad.core.transactions.decisions import Decisions, Result, timeout_key, timeout_timer
from kafkad.core.transactions.metadata_cache import EXPIRATION_KEY, TransactionMetadataCache, expire
from kafkad.core.transactions.producer_requests import (
    EndAction,
    Results,
    check_end_txn,
    check_producer,
    check_request,
    next_record,
    record_to_extend,
    rejections,
    same_for_all,
    verify,
)
from kafkad.core.transactions.records import AnyTransactionRecord, TransactionRecord
from kafkad.core.transactions.requests import (
    EndTxn,
    InitProducerId,
    OffsetsAdded,
    OffsetsToAdd,
    PartitionsAdded,
    PartitionsToAdd,
    ProducerInitialized,
    TransactionEnded,
    TransactionFilter,
)
from kafkad.core.transactions.state import TransactionState

OFFSETS_TOPIC = "__consumer_offsets"
_CLOSED_TO_CLIENTS = frozenset({OFFSETS_TOPIC, "__transaction_state"})
"""Rejected in AddPartitionsToTxn: offsets of groups are added by AddOffsetsToTxn."""
_IDS_PER_STEP = 500
"""Transactional ids of one step after the replay: some 2 ms."""


class TransactionShard:
    """Implements `Shard`. `coordinator_epoch` is the leader epoch with which the partition was loaded."""

    def __init__(
        self,
        config: TransactionConfig,
        topics: Topics,
        producer_ids: ProducerIdManager,
        coordinator_epoch: int,
        compile_pattern: CompilePattern,
    ) -> None:
        self._compile_pattern = compile_pattern
        self._cache = TransactionMetadataCache()
        self._topics = topics
        self._decisions = Decisions(self._cache, producer_ids, coordinator_epoch, config)

    @property
    def config(self) -> TransactionConfig:
        return self._decisions.config

    def configure(self, config: TransactionConfig) -> None:
        """Apply new settings, or a new feature level."""
        self._decisions.config = config

    @property
    def transactional_ids(self) -> int:
        """The number of transactional ids."""
        return len(self._cache)

    # Requests.

    def init_producer_id(self, token: int, request: InitProducerId, moment: Moment) -> Result:
        try:
            return self._initialize(token, request, moment)
        except KafkaError as error:
            return Outcome(replies=[(token, ProducerInitialized(code=error.code))])

    def _initialize(self, token: int, request: InitProducerId, moment: Moment) -> Result:
        if request.transactional_id is None:
            reply = ProducerInitialized(producer_id=self._decisions.take_producer_id(), producer_epoch=0)
            return Outcome(replies=[(token, reply)])
        transactional_id = check_request(request, self.config.max_timeout_ms)
        now_ms = moment.wall_ms
        if self._cache.is_pending(transactional_id):
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        take = self._decisions.take_producer_id
        current = self._cache.get(transactional_id) or transitions.created(
            transactional_id, take(), request.timeout_ms, now_ms
        )
        check_producer(current, request)
        if current.state.is_prepared:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        if current.state is TransactionState.ONGOING:
            outcome = self._decisions.abort_open(current, moment)
            # The producer retries until the transaction of its predecessor has ended.
            outcome.replies.append((token, ProducerInitialized(code=ErrorCode.CONCURRENT_TRANSACTIONS)))
            outcome.log_lines.append(
                f"{_description(current)}: aborting the transaction, as a new producer has started"
            )
            return outcome
        record = self._decisions.write(next_record(current, request, take, now_ms))
        reply = ProducerInitialized(producer_id=record.producer_id, producer_epoch=record.producer_epoch)
        return Outcome(records=[record], replies=[(token, reply)], after=self._settle_after([record]))

    def add_partitions(
        self, token: int, requests: Sequence[PartitionsToAdd], client_version: int, moment: Moment
    ) -> Result:
        """`client_version`: the transaction version of the client, 2 since AddPartitionsToTxn 4."""
        outcome: Result = Outcome()
        rows: list[tuple[str, Results]] = []
        closed = frozenset() if client_version else _CLOSED_TO_CLIENTS
        for request in requests:
            results = rejections(request.partitions, self._topics, closed)
            if results is None:
                results = self._join_or_verify(request, client_version, moment, outcome)
            rows.append((request.transactional_id, results))
        outcome.replies.append((token, PartitionsAdded(transactions=tuple(rows))))
        return outcome

    def _join_or_verify(
        self, request: PartitionsToAdd, client_version: int, moment: Moment, outcome: Result
    ) -> Results:
        try:
            if request.verify_only:
                return verify(self._cache, request)
            self._join(request, client_version, moment, outcome)
        except KafkaError as error:
            return same_for_all(request.partitions, error.code)
        return same_for_all(request.partitions, ErrorCode.NONE)

    def _join(self, request: PartitionsToAdd, client_version: int, moment: Moment, outcome: Result) -> None:
        current = record_to_extend(self._cache, request)
        if current is None:
            return
        self._decisions.check_client(client_version)
        record = transitions.joined(current, request.partitions, client_version, moment.wall_ms)
        record = self._decisions.write(record)
        outcome.records.append(record)
        if current.state is not TransactionState.ONGOING:
            outcome.timers.append(timeout_timer(record, moment))
        outcome.after = self._settle_after([row for row in outcome.records if isinstance(row, TransactionRecord)])

    def add_offsets(self, token: int, request: OffsetsToAdd, moment: Moment) -> Result:
        """Add the partition with the group's offsets to the transaction (KIP-447)."""
        partitions = self._topics.partitions_of(OFFSETS_TOPIC) or self.config.offsets_partitions
        partition = (OFFSETS_TOPIC, partition_for(request.group_id, partitions))
        adding = PartitionsToAdd(request.transactional_id, request.producer_id, request.producer_epoch, (partition,))
        outcome: Result = Outcome()
        (result,) = self._join_or_verify(adding, 0, moment, outcome)
        outcome.replies.append((token, OffsetsAdded(code=result.code)))
        return outcome

    def end_txn(self, token: int, request: EndTxn, moment: Moment) -> Result:
        try:
            return self._end(token, request, moment)
        except KafkaError as error:
            return Outcome(replies=[(token, TransactionEnded(code=error.code))])

    def _end(self, token: int, request: EndTxn, moment: Moment) -> Result:
        if not request.transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
        current = self._cache.get(request.transactional_id)
        if current is None:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        returns_producer_id = supports_epoch_bump(request.client_version)

        def replies_for(record: TransactionRecord) -> list[tuple[int, object]]:
            if not returns_producer_id:
                return [(token, TransactionEnded())]
            return [(token, TransactionEnded(producer_id=record.producer_id, producer_epoch=record.producer_epoch))]

        action = check_end_txn(current, request, is_pending=self._cache.is_pending(request.transactional_id))
        if action is EndAction.NONE:
            return Outcome(replies=replies_for(current))
        return self._decisions.decide(current, request.is_commit, request.client_version, moment, replies_for)

    def describe(self, token: int, transactional_ids: Sequence[str]) -> Result:
        return Outcome(replies=[(token, listing.describe(self._cache, transactional_ids))])

    def list_transactions(self, token: int, request: TransactionFilter, moment: Moment) -> Result:
        listed = listing.list_transactions(self._cache, request, moment.wall_ms, self._compile_pattern)
        return Outcome(replies=[(token, listed)])

    def _settle_after(self, records: Sequence[TransactionRecord]) -> Callable[[ErrorCode, Moment], Result]:
        def after(_code: ErrorCode, _moment: Moment) -> Result:
            for record in records:
                self._cache.settle(record.transactional_id)
            return Outcome()

        return after

    # Events.

    def replay(self, record: AnyTransactionRecord, offset: int, producer: Producer | None) -> None:
        self._cache.replay(record)

    def transaction_ended(self, producer_id: int, is_commit: bool, offset: int) -> None:
        """Never called: producers do not write to this topic in transactions."""

    def loaded(self, moment: Moment) -> Generator[Result, None, Result]:
        """Markers are requested in the last step: only then the shard can process their completion."""
        last: Result = Outcome(timers=[(EXPIRATION_KEY, moment.monotonic_ms + self.config.expiration_interval_ms)])
        records = iter(list(self._cache.oldest_first()))
        while step := list(islice(records, _IDS_PER_STEP)):
            outcome: Result = Outcome()
            for record in step:
                if record.state is TransactionState.ONGOING:
                    outcome.timers.append(timeout_timer(record, moment))
                elif record.state.is_prepared:
                    self._decisions.resume(record, moment, last)
            yield outcome
        return last

    def expired(self, key: Hashable, moment: Moment) -> Result:
        assert isinstance(key, tuple)
        if key == EXPIRATION_KEY:
            return expire(self._cache, self.config, moment)
        kind, transactional_id = key
        if kind == "completion":
            return self._decisions.complete(transactional_id, moment)
        return self._time_out(transactional_id, moment)

    def _time_out(self, transactional_id: str, moment: Moment) -> Result:
        current = self._cache.get(transactional_id)
        if current is None or current.state is not TransactionState.ONGOING:
            return Outcome()
        retry: Result = Outcome(
            timers=[(timeout_key(transactional_id), moment.monotonic_ms + self.config.abort_interval_ms)]
        )
        if self._cache.is_pending(transactional_id):
            return retry
        try:
            outcome = self._decisions.abort_open(current, moment, is_retried=True)
        except KafkaError:
            return retry
        outcome.log_lines.append(
            f"{_description(current)}: aborting the transaction, which timed out after {current.timeout_ms} ms"
        )
        return outcome

    def markers_written(self, transactional_id: str, producer_epoch: int, moment: Moment) -> Result:
        return self._decisions.markers_written(transactional_id, producer_epoch, moment)

    def markers_advanced(
        self, token: int, transactional_id: str, producer_epoch: int, partitions: frozenset[tuple[str, int]]
    ) -> Result:
        """Record partitions with a marker, which DescribeTransactions omits."""
        current = self._cache.get(transactional_id)
        if current is not None and current.state.is_prepared and current.producer_epoch == producer_epoch:
            self._cache.mark(transactional_id, partitions)
        return Outcome(replies=[(token, None)])

    def unloaded(self) -> Result:
        """Requests wait only for appended records, and the runtime completes these."""
        self._cache.clear_steps()
        return Outcome()


def _description(record: TransactionRecord) -> str:
    return f"{logged(record.transactional_id)} (producer {record.producer_id}, epoch {record.producer_epoch})"
