"""The metadata of the cluster as one immutable value with a version.

The controller creates it; every other process holds a copy and updates it by deltas (deltas.py). Struct fields are
written to the wire by position (array_like), so that 10,000 partitions stay small: append, never reorder.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from msgspec import Struct

from kafkad.core.types import NO_LEADER as NO_LEADER
from kafkad.core.types import NO_OWNER as NO_OWNER
from kafkad.core.types import RECOVERED

NO_LOG_DIR = -1
"""The log directory is offline; as `future_dir`: the partition is not being moved."""
NO_SLOT = -1
NO_CONTROLLER = -1
NO_FEATURES_EPOCH = -1
DEFAULT_BROKER = ""
"""The name of the default configuration of all brokers (Kafka: the empty resource name)."""


class Partition(Struct, frozen=True, array_like=True, kw_only=True, gc=False):
    """One partition; `slot`, `owner` (worker) and `log_dir` (index in log.dirs) are for this broker only.

    `future_dir` is the log directory to which the owner is moving the partition.
    `adding` and `removing` are the replicas that a reassignment in progress adds and removes; a broker has them for its
    own partitions only, the controller for all.
    `leader_recovery_state` is the state that the controller wrote last (KIP-704): RECOVERING from an unclean election
    until the leader's next AlterPartition. Only the controller reads it.
    `offline` are replicas on live brokers whose log directory is offline or full, as reported by the controller. The
    controller itself keeps them elsewhere.
    """

    index: int
    slot: int
    owner: int
    log_dir: int
    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    future_dir: int = NO_LOG_DIR
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    leader_recovery_state: int = RECOVERED
    offline: tuple[int, ...] = ()


class Topic(Struct, frozen=True, array_like=True, kw_only=True):
    """`partitions[i].index == i`; `configs` are the keys set on the topic, without defaults."""

    name: str
    id: UUID
    partitions: tuple[Partition, ...]
    configs: dict[str, str]


class Listener(Struct, frozen=True, array_like=True, kw_only=True):
    """The address of a broker: `security_protocol` by name (PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL)."""

    name: str
    host: str
    port: int
    security_protocol: str


class Broker(Struct, frozen=True, array_like=True, kw_only=True):
    """A live broker; `epoch` is the creation id of its registration.

    `features`: the registered lowest and highest level of each feature. Only the controller reads it.
    """

    id: int
    epoch: int
    listeners: tuple[Listener, ...]
    rack: str | None
    features: dict[str, tuple[int, int]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataImage:
    """`broker_configs` by broker id as text, `DEFAULT_BROKER` for the default; `group_configs` by group id.

    `features` are the finalized levels (without level 0); each change of them increases `features_epoch`.
    """

    version: int = 0
    cluster_id: str = ""
    brokers: Mapping[int, Broker] = field(default_factory=dict)
    topics: Mapping[str, Topic] = field(default_factory=dict)
    names_by_id: Mapping[UUID, str] = field(default_factory=dict)
    broker_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    group_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    features: Mapping[str, int] = field(default_factory=dict)
    features_epoch: int = NO_FEATURES_EPOCH
    controller_id: int = NO_CONTROLLER
    """The active controller of a cluster; a single broker's own id."""

    def topic_by_id(self, topic_id: UUID) -> Topic | None:
        name = self.names_by_id.get(topic_id)
        return None if name is None else self.topics[name]
