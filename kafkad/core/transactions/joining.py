"""May these partitions be added to the transaction, or are they in it? (AddPartitionsToTxn, AddOffsetsToTxn; KIP-890)

All or nothing: if one partition does not exist, none is added.
"""

from collections.abc import Sequence, Set

from kafkad.core.coordinator.topics import Topics
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.transactions.metadata_cache import TransactionMetadataCache
from kafkad.core.transactions.records import Partition, TransactionRecord
from kafkad.core.transactions.requests import PartitionResult, PartitionsToAdd
from kafkad.core.transactions.state import TransactionState

Results = tuple[PartitionResult, ...]


def rejections(partitions: Sequence[Partition], topics: Topics, closed: Set[str]) -> Results | None:
    """The results if partitions do not exist or are of a `closed` topic; None: all may be added."""
    counts = {topic: topics.partitions_of(topic) or 0 for topic, _ in partitions}
    codes = []
    for topic, index in partitions:
        if topic in closed:
            codes.append(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        elif not 0 <= index < counts[topic]:
            codes.append(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        else:
            codes.append(ErrorCode.OPERATION_NOT_ATTEMPTED)
    if all(code is ErrorCode.OPERATION_NOT_ATTEMPTED for code in codes):
        return None
    return tuple(PartitionResult(*partition, code) for partition, code in zip(partitions, codes, strict=True))


def same_for_all(partitions: Sequence[Partition], code: ErrorCode) -> Results:
    return tuple(PartitionResult(topic, index, code) for topic, index in partitions)


def verify(cache: TransactionMetadataCache, request: PartitionsToAdd) -> Results:
    """Check that each partition is in the transaction. Raises `KafkaError`."""
    _check_id(request.transactional_id)
    # A pending step does not matter: the log checks again when it appends.
    current = _current(cache, request)
    if current.state.is_prepared:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    added = frozenset(current.partitions)
    return tuple(
        PartitionResult(*partition, ErrorCode.NONE if partition in added else ErrorCode.TRANSACTION_ABORTABLE)
        for partition in request.partitions
    )


def record_to_extend(cache: TransactionMetadataCache, request: PartitionsToAdd) -> TransactionRecord | None:
    """The record to which the partitions must be added; None: it has them already. Raises `KafkaError`."""
    _check_id(request.transactional_id)
    if cache.is_pending(request.transactional_id):
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    current = _current(cache, request)
    if current.state.is_prepared:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if current.state is TransactionState.ONGOING and set(request.partitions) <= set(current.partitions):
        return None
    return current


def _check_id(transactional_id: str) -> None:
    if not transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")


def _current(cache: TransactionMetadataCache, request: PartitionsToAdd) -> TransactionRecord:
    current = cache.get(request.transactional_id)
    if current is None or current.producer_id != request.producer_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if current.producer_epoch != request.producer_epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    return current
