"""The settings of transaction coordinators, and the feature that sets the version of transactions (KIP-890,
KIP-1022)."""

from dataclasses import dataclass

MAX_TRANSACTION_VERSION = 2
"""0: as before KIP-890. 1: records with tagged fields. 2: each end bumps the epoch, writes add partitions."""

FLEXIBLE_RECORDS_SINCE = 1
EPOCH_BUMP_SINCE = 2


def supports_epoch_bump(transaction_version: int) -> bool:
    """Whether each transaction ends with a bump of the producer epoch."""
    return transaction_version >= EPOCH_BUMP_SINCE


def value_version(transaction_version: int) -> int:
    """The version of TransactionLogValue that belongs to the finalized feature level."""
    return 1 if transaction_version >= FLEXIBLE_RECORDS_SINCE else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionConfig:
    """Kafka's option names without prefixes; `transaction_version` is the finalized feature level."""

    max_timeout_ms: int = 900_000
    """transaction.max.timeout.ms"""
    transactional_id_expiration_ms: int = 604_800_000
    """transactional.id.expiration.ms"""
    expiration_interval_ms: int = 3_600_000
    """transaction.remove.expired.transaction.cleanup.interval.ms"""
    abort_interval_ms: int = 10_000
    """transaction.abort.timed.out.transaction.cleanup.interval.ms: the pause after a failed write of an abort. Apache
    Kafka scans at this interval; kafkad has a timer for each transaction."""
    transaction_version: int = MAX_TRANSACTION_VERSION
    offsets_partitions: int = 50
    """offsets.topic.num.partitions, for transactions with a group's offsets before `__consumer_offsets` exists."""
