"""The ids, offsets and small values that every other module uses. Kafka's words, one meaning each.

Nothing here has behaviour beyond its fields.
"""

from dataclasses import dataclass
from typing import NamedTuple, NewType
from uuid import UUID

BrokerId = NewType("BrokerId", int)

NO_TOPIC_ID = UUID(int=0)
"""Stands for no topic id (KIP-516)."""
ISOLATIONS = HIGH_WATERMARK, TXN_COMMITTED, LOG_END = range(3)
"""The end of a fetch (Kafka's FetchIsolation): LOG_END for followers, TXN_COMMITTED for read_committed."""
NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
LAST_PRODUCER_EPOCH = 2**15 - 1
"""A producer that reaches it gets a new producer id."""
NO_SEQUENCE = -1
NO_LEADER = -1
NO_LEADER_EPOCH = -1
NO_BROKER_EPOCH = -1
"""No broker epoch, as from a sender of an old version: the receiver does not check it."""
RECOVERED = 0
RECOVERING = 1
"""Values of `leader_recovery_state` (KIP-704): RECOVERING from an unclean election until the next AlterPartition."""
NO_OWNER = -1
"""Stands for no worker: this broker has no replica of the partition."""
NO_GENERATION = -1
NOT_CLEANED = -1
"""The cleaned offset of a log that was never compacted."""
SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""By their number in Kafka's protocol."""
LARGEST_OFFSET = 2**63 - 1
LARGEST_PARTITION = 2**31 - 1
"""The largest values of the protocol's fields."""


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """A partition by name, as in directory names and checkpoints."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class LogPosition(NamedTuple):
    """An offset with its position on disk (Kafka: LogOffsetMetadata). A tuple, because several are created per batch.

    `segment_base` is the base offset of the segment; the batch of `offset` starts at byte `position` of its file.
    """

    offset: int
    segment_base: int
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeSpace:
    """The state of a file system: bytes that may be written, and all bytes."""

    free_bytes: int
    total_bytes: int
