"""What must be asked before a transactional batch is appended, and what becomes of a coordinator's refusal? (KIP-890)

Up to Produce 11 clients add partitions to their transactions themselves, and the coordinator is only asked whether
they did. From 12 on (transaction version 2) the question adds the partition. Codes are those that Apache Kafka sends
to clients of each version.
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
    """Whether the batch itself makes its partition part of the transaction."""
    return version >= _ADDS_FROM


def may_ask_again(codes: Sequence[ErrorCode], version: int) -> bool:
    """Whether the transaction before this one is just being ended: the client would ask again at once."""
    return adds_partitions(version) and ErrorCode.CONCURRENT_TRANSACTIONS in codes


def refusal(code: ErrorCode, version: int) -> KafkaError | None:
    """What the client of this Produce version is told; None when nothing is against it."""
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
        # Clients of all versions retry this one, and don't look for another leader because of it.
        return KafkaError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"the coordinator can't say now whether the partition is part of the transaction: {code.name}",
        )
    return KafkaError(code)


def check_sole_producer(producers: Iterable[tuple[int, int]]) -> tuple[int, int] | None:
    """(producer id, epoch) of the transactional batches of one request; None when it has none."""
    found = set(producers)
    if len(found) > 1:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            "a request may hold transactional batches of one producer only",
        )
    return next(iter(found), None)
