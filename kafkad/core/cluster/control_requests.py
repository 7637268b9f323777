"""The requests between the controller and the brokers, with their responses: Kafka's messages as plain values.

The elected controller builds LeaderAndIsr, UpdateMetadata and StopReplica, and each broker handles them; the wire
translates both ways. A request has the fields of its newest version; for missing fields of older versions it has
NO_TOPIC_ID, NO_BROKER_EPOCH and the other defaults. The controller passes requests to its own broker directly.
"""

from dataclasses import dataclass
from uuid import UUID

from kafkad.core.errors import ErrorCode
from kafkad.core.types import NO_BROKER_EPOCH, NO_LEADER_EPOCH, NO_TOPIC_ID, RECOVERED

LEADER_DURING_DELETE = -2
"""The leader of a partition whose topic is being deleted: brokers remove it from their metadata."""
EPOCH_DURING_DELETE = -2
"""The leader epoch in StopReplica for a topic that is being deleted: it is not compared."""
PARTITIONS_OF_TOPIC = 100_000
"""The most partitions of a topic: its node in ZooKeeper names all of them in at most 1 MB (jute.maxbuffer). A broker
keeps a row for each index up to the largest one.
"""


def is_partition_index(index: int) -> bool:
    return 0 <= index < PARTITIONS_OF_TOPIC


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsrPartition:
    """`controller_epoch` is from the state node, `partition_epoch` is the version of the node."""

    partition_index: int
    controller_epoch: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    is_new: bool = False
    leader_recovery_state: int = RECOVERED


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsrTopic:
    topic_name: str
    topic_id: UUID = NO_TOPIC_ID
    partition_states: tuple[LeaderAndIsrPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveLeader:
    """The inter-broker address of a leader in the request."""

    broker_id: int
    host_name: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsrRequest:
    """`broker_epoch` is the receiver's."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int = NO_BROKER_EPOCH
    topic_states: tuple[LeaderAndIsrTopic, ...]
    live_leaders: tuple[LiveLeader, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionError:
    partition_index: int
    error_code: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsrTopicError:
    """Versions up to 4 have `topic_name`, later ones `topic_id`; our own responses have both."""

    topic_name: str = ""
    topic_id: UUID = NO_TOPIC_ID
    partition_errors: tuple[PartitionError, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsrResponse:
    error_code: ErrorCode
    topics: tuple[LeaderAndIsrTopicError, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMetadataPartition:
    """`leader` may be LEADER_DURING_DELETE; `zk_version` is the partition epoch."""

    partition_index: int
    controller_epoch: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    zk_version: int
    replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMetadataTopic:
    topic_name: str
    topic_id: UUID = NO_TOPIC_ID
    partition_states: tuple[UpdateMetadataPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveEndpoint:
    """`security_protocol` by name (PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL)."""

    port: int
    host: str
    listener: str
    security_protocol: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveBroker:
    id: int
    endpoints: tuple[LiveEndpoint, ...]
    rack: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMetadataRequest:
    """`live_brokers` are all live brokers, `topic_states` only changes; `broker_epoch` is the receiver's."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int = NO_BROKER_EPOCH
    topic_states: tuple[UpdateMetadataTopic, ...] = ()
    live_brokers: tuple[LiveBroker, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMetadataResponse:
    error_code: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReplicaPartition:
    partition_index: int
    leader_epoch: int = NO_LEADER_EPOCH
    delete_partition: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReplicaTopic:
    topic_name: str
    partition_states: tuple[StopReplicaPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReplicaRequest:
    """`broker_epoch` is the receiver's."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int = NO_BROKER_EPOCH
    topic_states: tuple[StopReplicaTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReplicaError:
    topic_name: str
    partition_index: int
    error_code: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReplicaResponse:
    error_code: ErrorCode
    partition_errors: tuple[StopReplicaError, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrMember:
    """A member of the requested ISR; `broker_epoch` is the epoch of the broker whose fetches the leader has counted.
    NO_BROKER_EPOCH: of any epoch; Apache Kafka's leaders on ZooKeeper send no other.
    """

    broker_id: int
    broker_epoch: int = NO_BROKER_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionPartition:
    """`partition_epoch` is from the state on which the leader decided."""

    partition_index: int
    leader_epoch: int
    new_isr_with_epochs: tuple[IsrMember, ...]
    leader_recovery_state: int = RECOVERED
    partition_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionTopic:
    """Versions 0 and 1 have `topic_name`, later ones `topic_id`."""

    topic_name: str = ""
    topic_id: UUID = NO_TOPIC_ID
    partitions: tuple[AlterPartitionPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionRequest:
    """`broker_epoch` is the sender's."""

    broker_id: int
    broker_epoch: int
    topics: tuple[AlterPartitionTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlteredPartition:
    """The state after the change, or the error and zeros, as from Apache Kafka."""

    partition_index: int
    error_code: ErrorCode
    leader_id: int = 0
    leader_epoch: int = 0
    isr: tuple[int, ...] = ()
    leader_recovery_state: int = RECOVERED
    partition_epoch: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AlteredTopic:
    topic_name: str = ""
    topic_id: UUID = NO_TOPIC_ID
    partitions: tuple[AlteredPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionResponse:
    error_code: ErrorCode
    topics: tuple[AlteredTopic, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlledShutdownRequest:
    broker_id: int
    broker_epoch: int = NO_BROKER_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class RemainingPartition:
    topic_name: str
    partition_index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlledShutdownResponse:
    """`remaining_partitions` are still led by the sender of the request."""

    error_code: ErrorCode
    remaining_partitions: tuple[RemainingPartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocateProducerIdsRequest:
    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocateProducerIdsResponse:
    error_code: ErrorCode
    producer_id_start: int = 0
    producer_id_len: int = 0
