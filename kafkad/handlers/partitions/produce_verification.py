"""How is a transactional batch verified before it is appended, and which code does a refusal become?

(KIP-890) Up to Produce 11 clients add partitions to their transactions themselves, and the owner only asks the
coordinator whether they did. From 12 on (transaction version 2) the question itself adds the partition. Codes are those
that Apache Kafka sends to clients of each version.
"""

from collections.abc import Iterable, Sequence

from kafkad.core.errors import ErrorCode, KafkaError

_ABORTABLE_FROM = 11
_ADDS_FROM = 12
_COORDINATOR_AWAY = frozenset(
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


def may_ask_again(codes: Sequence[ErrorCode], version: int) -> bool:
    """Whether the previous transaction is still being ended: the client would retry at once."""
    return adds_partitions(version) and ErrorCode.CONCURRENT_TRANSACTIONS in codes


def refusal(code: ErrorCode, version: int) -> KafkaError | None:
    """The code for a client of this Produce version; None when the batch may be appended."""
    if code == ErrorCode.NONE:
        return None
    if code == ErrorCode.PRODUCER_FENCED:
        return KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)
    if code == ErrorCode.TRANSACTION_ABORTABLE and version < _ABORTABLE_FROM:
        code = ErrorCode.INVALID_TXN_STATE
    if code == ErrorCode.INVALID_TXN_STATE:
        return KafkaError(code, "the partition is not part of the transaction")
    is_busy = code == ErrorCode.CONCURRENT_TRANSACTIONS and not adds_partitions(version)
    if is_busy or code in _COORDINATOR_AWAY:
        # Clients of all versions retry on this code, and do not look up the leader again.
        return KafkaError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"the coordinator can't say now whether the partition is part of the transaction: {code.name}",
        )
    return KafkaError(code)


def check_sole_producer(producers: Iterable[tuple[int, int]]) -> tuple[int, int] | None:
    """(producer id, epoch) of the transactional batches of one request; None without such batches."""
    found = set(producers)
    if len(found) > 1:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            "a request may hold transactional batches of one producer only",
        )
    return next(iter(found), None)
