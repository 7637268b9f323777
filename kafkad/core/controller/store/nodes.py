"""The nodes of the coordination store: Apache Kafka's paths and JSON.

The shapes are those of Kafka 3.9 in ZooKeeper mode, so that brokers of both share one tree. The only addition is the
content of /admin/delete_topics/<topic>, which Kafka leaves empty and does not read.
"""

import base64
from typing import Annotated
from uuid import UUID

from msgspec import UNSET, Meta, Struct, UnsetType, field, json

from kafkad.core.types import RECOVERED, RECOVERING

TOPICS = "/brokers/topics"
BROKER_IDS = "/brokers/ids"
BROKER_SEQUENCE = "/brokers/seqid"
DELETIONS = "/admin/delete_topics"
TOPIC_CONFIGS = "/config/topics"
BROKER_CONFIGS = "/config/brokers"
GROUP_CONFIGS = "/config/groups"
CONFIG_CHANGES = "/config/changes"
CONFIG_CHANGE = f"{CONFIG_CHANGES}/config_change_"
CLUSTER_ID = "/cluster/id"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
FEATURES = "/feature"
PREFERRED_ELECTION = "/admin/preferred_replica_election"
REASSIGNMENT = "/admin/reassign_partitions"
LOG_DIR_EVENTS = "/log_dir_event_notification"
LOG_DIR_EVENT = f"{LOG_DIR_EVENTS}/log_dir_event_"
ISR_CHANGES = "/isr_change_notification"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"
DEFAULT_ENTITY = "<default>"

PERSISTENT_PATHS = (
    "/admin",
    DELETIONS,
    "/brokers",
    BROKER_IDS,
    BROKER_SEQUENCE,
    TOPICS,
    "/cluster",
    "/config",
    BROKER_CONFIGS,
    CONFIG_CHANGES,
    "/config/clients",
    GROUP_CONFIGS,
    "/config/ips",
    TOPIC_CONFIGS,
    "/config/users",
    "/consumers",
    ISR_CHANGES,
    LOG_DIR_EVENTS,
)
"""Created at start, parents before children; then `PRODUCER_ID_BLOCK`."""


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    return f"{TOPICS}/{topic}/partitions"


def partition_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}"


def state_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}/state"


def topic_config_path(topic: str) -> str:
    return f"{TOPIC_CONFIGS}/{topic}"


def broker_config_path(broker: str) -> str:
    return f"{BROKER_CONFIGS}/{broker or DEFAULT_ENTITY}"


def group_config_path(group_id: str) -> str:
    """A group id may have any character, also a slash, so it is encoded."""
    return f"{GROUP_CONFIGS}/{base64.urlsafe_b64encode(group_id.encode()).decode()}"


def group_of(node: str) -> str:
    return base64.urlsafe_b64decode(node).decode()


def deletion_path(topic: str) -> str:
    return f"{DELETIONS}/{topic}"


INT32_MAX = 2**31 - 1
Number = Annotated[int, Meta(ge=0, le=INT32_MAX)]
"""A broker id or an epoch that a request can carry."""
Leader = Annotated[int, Meta(ge=-1, le=INT32_MAX)]
LeaderEpoch = Annotated[int, Meta(ge=0, le=2**30)]
"""Limited so that it can be increased further."""
Text = Annotated[str, Meta(max_length=8191)]
"""A string that a request can carry: each character may take four of its 32,767 bytes."""
RecoveryState = Annotated[int, Meta(ge=RECOVERED, le=RECOVERING)]


class TopicNode(Struct, frozen=True, kw_only=True):
    partitions: dict[str, tuple[Number, ...]]
    topic_id: str | None = None
    adding_replicas: dict[str, tuple[Number, ...]] = field(default_factory=dict)
    removing_replicas: dict[str, tuple[Number, ...]] = field(default_factory=dict)
    version: int = 3


class StateNode(Struct, frozen=True, kw_only=True):
    """`leader_recovery_state` is written only while it is RECOVERING, as by Kafka."""

    controller_epoch: int
    leader: Leader
    version: int = 1
    leader_epoch: LeaderEpoch
    isr: tuple[Number, ...]
    leader_recovery_state: RecoveryState | UnsetType = UNSET


class ConfigNode(Struct, frozen=True, kw_only=True):
    version: int = 1
    config: dict[str, str]


class ConfigChangeNode(Struct, frozen=True, kw_only=True):
    version: int = 2
    entity_path: str


class ReadConfigChange(Struct, frozen=True):
    """A notification of any version; version 1 has two fields instead of the path."""

    entity_path: str = ""
    entity_type: str = ""
    entity_name: str = ""


class LogDirEventNode(Struct, frozen=True, kw_only=True):
    """A broker reports a failed log directory (event 1)."""

    version: int = 1
    broker: int
    event: int = 1


class ReadLogDirEvent(Struct, frozen=True):
    """The fields of the event that the controller reads."""

    broker: int


class ReadEndpoints(Struct, frozen=True):
    """The fields of another broker's registration that a starting broker reads."""

    endpoints: tuple[str, ...] = ()


class SupportedLevels(Struct, frozen=True):
    """The range of a feature in a registration."""

    min_version: int
    max_version: int


class ReadRegistration(Struct, frozen=True):
    """The fields of a registration that the controller reads."""

    endpoints: tuple[Text, ...]
    listener_security_protocol_map: dict[str, str] = {}
    rack: Text | None = None
    features: dict[str, SupportedLevels] | None = None


class ClusterIdNode(Struct, frozen=True, kw_only=True):
    version: str = "1"
    id: str


class ReadClusterId(Struct, frozen=True):
    id: Annotated[str, Meta(min_length=1)]


class ControllerNode(Struct, frozen=True, kw_only=True, rename="camel"):
    version: int = 2
    brokerid: int
    timestamp: str
    kraft_controller_epoch: int = -1


class ReadController(Struct, frozen=True):
    brokerid: Number


class ProducerIdBlockNode(Struct, frozen=True, kw_only=True):
    version: int = 1
    broker: int
    block_start: str
    block_end: str


FEATURES_ENABLED = 1


class FeatureNode(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """The finalized level of each feature; levels count only with `status` 1."""

    features: dict[str, int] = field(default_factory=dict)
    version: int = 2
    status: int = FEATURES_ENABLED


class DeletionNode(Struct, frozen=True, kw_only=True):
    version: int = 1
    topic_id: str
    partitions: int


class BrokerNode(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """A registration; `host` and `port` are of the first PLAINTEXT listener, for old readers."""

    features: dict[str, SupportedLevels] = field(default_factory=dict)
    listener_security_protocol_map: dict[str, str]
    endpoints: tuple[str, ...]
    rack: str | None = None
    jmx_port: int = -1
    port: int
    host: str | None
    version: int = 5
    timestamp: str


class NamedPartition(Struct, frozen=True, kw_only=True):
    topic: str
    partition: int


class PartitionsNamed(Struct, frozen=True, kw_only=True):
    """Tools request elections of preferred leaders with it; leaders list partitions whose states they have written."""

    partitions: tuple[NamedPartition, ...]


class ReassignedPartition(Struct, frozen=True, kw_only=True):
    topic: str
    partition: int
    replicas: tuple[int, ...]


class ReassignmentOrder(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """Written by tools, and by the controller when some of the reassignments are completed."""

    version: int = 1
    partitions: tuple[ReassignedPartition, ...]


encode = json.encode
decode_topic = json.Decoder(TopicNode).decode
decode_state = json.Decoder(StateNode).decode
decode_config = json.Decoder(ConfigNode).decode
decode_config_change = json.Decoder(ReadConfigChange).decode
decode_registration = json.Decoder(ReadRegistration).decode
decode_log_dir_event = json.Decoder(ReadLogDirEvent).decode
decode_endpoints = json.Decoder(ReadEndpoints).decode
decode_cluster_id = json.Decoder(ReadClusterId).decode
decode_controller = json.Decoder(ReadController).decode
decode_block = json.Decoder(ProducerIdBlockNode).decode
decode_features = json.Decoder(FeatureNode).decode
decode_partitions_named = json.Decoder(PartitionsNamed).decode
decode_reassignment_order = json.Decoder(ReassignmentOrder).decode
decode_deletion = json.Decoder(DeletionNode).decode


def read_features(data: bytes) -> dict[str, int]:
    """The finalized levels; empty while features are disabled."""
    node = decode_features(data)
    return node.features if node.status == FEATURES_ENABLED else {}


def read_topic(data: bytes) -> TopicNode:
    """A topic with partitions numbered from 0 and a valid id or none. Raises ValueError otherwise."""
    node = decode_topic(data)
    if any(str(index) not in node.partitions for index in range(len(node.partitions))):
        raise ValueError("the partitions are not numbered from 0 on")
    try:
        decode_id(node.topic_id or encode_id(UUID(int=0)))
    except ValueError as error:
        raise ValueError(f"{node.topic_id!r} is not a topic id") from error
    return node


def read_state(data: bytes) -> StateNode:
    """A state with a non-empty ISR. Raises ValueError otherwise."""
    node = decode_state(data)
    if not node.isr:
        raise ValueError("the ISR is empty")
    return node


def encode_id(topic_id: UUID) -> str:
    """Kafka's text of a UUID: 16 bytes in URL-safe base 64 without padding."""
    return base64.urlsafe_b64encode(topic_id.bytes)[:22].decode("ascii")


def decode_id(text: str) -> UUID:
    return UUID(bytes=base64.urlsafe_b64decode(text + "=="))
