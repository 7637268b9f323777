"""The shard of one partition of `__transaction_state`: what each request, timer and event does.

Answers wait until their records are safe in the log. Meanwhile other requests for the id get CONCURRENT_TRANSACTIONS.
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
from kafkad.core.transactions.ending import Verdict, judge
from kafkad.core.transactions.expiration import EXPIRATION_KEY, expire
from kafkad.core.transactions.initializing import check_producer, check_request, next_record
from kafkad.core.transactions.joining import Results, record_to_extend, refusals, same_for_all, verify
from kafkad.core.transactions.metadata_cache import TransactionMetadataCache
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
"""In AddPartitionsToTxn: a group's offsets join by AddOffsetsToTxn."""
_LOADED_STEP = 500
"""Transactional ids in a step after the replay, some 2 ms."""


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
        """Other settings, or another feature level, from now on."""
        self._decisions.config = config

    @property
    def transactional_ids(self) -> int:
        """The number of transactional ids."""
        return len(self._cache)

    # Requests.

    def init_producer_id(self, token: int, wanted: InitProducerId, moment: Moment) -> Result:
        try:
            return self._initialize(token, wanted, moment)
        except KafkaError as error:
            return Outcome(replies=[(token, ProducerInitialized(code=error.code))])

    def _initialize(self, token: int, wanted: InitProducerId, moment: Moment) -> Result:
        if wanted.transactional_id is None:
            reply = ProducerInitialized(producer_id=self._decisions.take_producer_id(), producer_epoch=0)
            return Outcome(replies=[(token, reply)])
        transactional_id = check_request(wanted, self.config.max_timeout_ms)
        now_ms = moment.wall_ms
        if self._cache.is_pending(transactional_id):
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        take = self._decisions.take_producer_id
        current = self._cache.get(transactional_id) or transitions.created(
            transactional_id, take(), wanted.timeout_ms, now_ms
        )
        check_producer(current, wanted)
        if current.state.is_prepared:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        if current.state is TransactionState.ONGOING:
            outcome = self._decisions.abort_open(current, moment)
            # The producer retries until its predecessor's transaction has ended.
            outcome.replies.append((token, ProducerInitialized(code=ErrorCode.CONCURRENT_TRANSACTIONS)))
            outcome.log_lines.append(f"{_named(current)}: its transaction is aborted, a new producer has started")
            return outcome
        record = self._decisions.write(next_record(current, wanted, take, now_ms))
        reply = ProducerInitialized(producer_id=record.producer_id, producer_epoch=record.producer_epoch)
        return Outcome(records=[record], replies=[(token, reply)], after=self._settles([record]))

    def add_partitions(
        self, token: int, asked: Sequence[PartitionsToAdd], client_version: int, moment: Moment
    ) -> Result:
        """`client_version`: the transaction version of the client, 2 since AddPartitionsToTxn 4."""
        outcome: Result = Outcome()
        rows: list[tuple[str, Results]] = []
        closed = frozenset() if client_version else _CLOSED_TO_CLIENTS
        for each in asked:
            results = refusals(each.partitions, self._topics, closed)
            if results is None:
                results = self._join_or_verify(each, client_version, moment, outcome)
            rows.append((each.transactional_id, results))
        outcome.replies.append((token, PartitionsAdded(transactions=tuple(rows))))
        return outcome

    def _join_or_verify(self, asked: PartitionsToAdd, client_version: int, moment: Moment, onto: Result) -> Results:
        try:
            if asked.verify_only:
                return verify(self._cache, asked)
            self._join(asked, client_version, moment, onto)
        except KafkaError as error:
            return same_for_all(asked.partitions, error.code)
        return same_for_all(asked.partitions, ErrorCode.NONE)

    def _join(self, asked: PartitionsToAdd, client_version: int, moment: Moment, onto: Result) -> None:
        current = record_to_extend(self._cache, asked)
        if current is None:
            return
        self._decisions.check_client(client_version)
        record = transitions.joined(current, asked.partitions, client_version, moment.wall_ms)
        record = self._decisions.write(record)
        onto.records.append(record)
        if current.state is not TransactionState.ONGOING:
            onto.timers.append(timeout_timer(record, moment))
        onto.after = self._settles([each for each in onto.records if isinstance(each, TransactionRecord)])

    def add_offsets(self, token: int, asked: OffsetsToAdd, moment: Moment) -> Result:
        """The partition that stores the group's offsets joins the transaction (KIP-447)."""
        partitions = self._topics.partitions_of(OFFSETS_TOPIC) or self.config.offsets_partitions
        partition = (OFFSETS_TOPIC, partition_for(asked.group_id, partitions))
        adding = PartitionsToAdd(asked.transactional_id, asked.producer_id, asked.producer_epoch, (partition,))
        outcome: Result = Outcome()
        (result,) = self._join_or_verify(adding, 0, moment, outcome)
        outcome.replies.append((token, OffsetsAdded(code=result.code)))
        return outcome

    def end_txn(self, token: int, end: EndTxn, moment: Moment) -> Result:
        try:
            return self._end(token, end, moment)
        except KafkaError as error:
            return Outcome(replies=[(token, TransactionEnded(code=error.code))])

    def _end(self, token: int, end: EndTxn, moment: Moment) -> Result:
        if not end.transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
        current = self._cache.get(end.transactional_id)
        if current is None:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        tells_identity = supports_epoch_bump(end.client_version)

        def tell(record: TransactionRecord) -> list[tuple[int, object]]:
            if not tells_identity:
                return [(token, TransactionEnded())]
            return [(token, TransactionEnded(producer_id=record.producer_id, producer_epoch=record.producer_epoch))]

        verdict = judge(current, end, is_pending=self._cache.is_pending(end.transactional_id))
        if verdict is Verdict.DONE:
            return Outcome(replies=tell(current))
        return self._decisions.decide(current, end.is_commit, end.client_version, moment, tell)

    def describe(self, token: int, transactional_ids: Sequence[str]) -> Result:
        return Outcome(replies=[(token, listing.describe(self._cache, transactional_ids))])

    def list_transactions(self, token: int, wanted: TransactionFilter, moment: Moment) -> Result:
        listed = listing.list_transactions(self._cache, wanted, moment.wall_ms, self._compile_pattern)
        return Outcome(replies=[(token, listed)])

    def _settles(self, records: Sequence[TransactionRecord]) -> Callable[[ErrorCode, Moment], Result]:
        def after(_code: ErrorCode, _moment: Moment) -> Result:
            for record in records:
                self._cache.settle(record.transactional_id)
            return Outcome()

        return after

    # Events.

    def replay(self, record: AnyTransactionRecord, offset: int, producer: Producer | None) -> None:
        self._cache.replay(record)

    def transaction_ended(self, producer_id: int, is_commit: bool, offset: int) -> None:
        """No producer writes to this topic in a transaction."""

    def loaded(self, moment: Moment) -> Generator[Result, None, Result]:
        """Markers are ordered at the end: somebody has to be there to hear that they are written."""
        last: Result = Outcome(timers=[(EXPIRATION_KEY, moment.monotonic_ms + self.config.expiration_interval_ms)])
        records = iter(list(self._cache.oldest_first()))
        while some := list(islice(records, _LOADED_STEP)):
            outcome: Result = Outcome()
            for record in some:
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
        again: Result = Outcome(
            timers=[(timeout_key(transactional_id), moment.monotonic_ms + self.config.abort_interval_ms)]
        )
        if self._cache.is_pending(transactional_id):
            return again
        try:
            outcome = self._decisions.abort_open(current, moment, retries=True)
        except KafkaError:
            return again
        outcome.log_lines.append(f"{_named(current)}: its transaction is aborted after {current.timeout_ms} ms")
        return outcome

    def markers_written(self, transactional_id: str, producer_epoch: int, moment: Moment) -> Result:
        return self._decisions.markers_written(transactional_id, producer_epoch, moment)

    def markers_advanced(
        self, token: int, transactional_id: str, producer_epoch: int, partitions: frozenset[tuple[str, int]]
    ) -> Result:
        """These partitions have their markers: DescribeTransactions then shows only the others."""
        current = self._cache.get(transactional_id)
        if current is not None and current.state.is_prepared and current.producer_epoch == producer_epoch:
            self._cache.mark(transactional_id, partitions)
        return Outcome(replies=[(token, None)])

    def unloaded(self) -> Result:
        """Requests wait only for appended records here, and the runtime answers those."""
        self._cache.forget_steps()
        return Outcome()


def _named(record: TransactionRecord) -> str:
    return f"{logged(record.transactional_id)} (producer {record.producer_id}, epoch {record.producer_epoch})"
