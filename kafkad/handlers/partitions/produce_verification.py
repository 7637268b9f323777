"""Verifies transactional batches before they are appended, and translates the coordinator's error codes (KIP-890).

Up to Produce 11 clients add partitions to their transactions themselves; the owner only verifies this with the
coordinator. From 12 on (transaction version 2) the owner's request adds the partition. The codes are the ones that
Apache Kafka sends to clients of each version.
"""

from collections.abc import Iterable, Sequence

from kafkad.core.errors import ErrorCode, KafkaError

_ABORTABLE_FROM = 11
_ADDS_FROM = 12
_COORDINATOR_UNAVAILABLE = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


def adds_partitions(version: int) -> bool:
    """Whether the batch itself adds its partition to the transaction."""
    return version >= _ADDS_FROM


def may_retry(codes: Sequence[ErrorCode], version: int) -> bool:
    """Whether the coordinator is still completing the previous transaction, so that a retry succeeds soon."""
    return adds_partitions(version) and ErrorCode.CONCURRENT_TRANSACTIONS in codes


def verification_error(code: ErrorCode, version: int) -> KafkaError | None:
    """The error for a client of this Produce version; None when the batch may be appended."""
    if code == ErrorCode.NONE:
        return None
    if code == ErrorCode.PRODUCER_FENCED:
        return KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)
    if code == ErrorCode.TRANSACTION_ABORTABLE and version < _ABORTABLE_FROM:
        code = ErrorCode.INVALID_TXN_STATE
    if code == ErrorCode.INVALID_TXN_STATE:
        return KafkaError(code, "the partition is not part of the transaction")
    is_busy = code == ErrorCode.CONCURRENT_TRANSACTIONS and not adds_partitions(version)
    if is_busy or code in _COORDINATOR_UNAVAILABLE:
        # Clients of all versions retry after this code without refreshing their metadata.
        return KafkaError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"the coordinator could not verify that the partition is part of the transaction: {code.name}",
        )
    return KafkaError(code)


def check_sole_producer(producers: Iterable[tuple[int, int]]) -> tuple[int, int] | None:
    """(producer id, epoch) of the request's transactional batches; None without such batches. Raises KafkaError."""
    found = set(producers)
    if len(found) > 1:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            "a request may contain transactional batches of one producer only",
        )
    return next(iter(found), None)
