"""How a metadata image changes from one version to the next, and how processes exchange the changes.

`apply` is pure. A delta that the image contains already changes nothing. A delta after a gap is rejected, and the
receiver requests a snapshot.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from uuid import UUID

from msgspec import Struct, msgpack, structs

from kafkad.core.controller.image import NO_CONTROLLER, Broker, MetadataImage, Partition, Topic
from kafkad.core.types import TopicPartition


class TopicCreated(Struct, frozen=True, array_like=True, tag=True):
    topic: Topic


class PartitionsAdded(Struct, frozen=True, array_like=True, tag=True):
    name: str
    partitions: tuple[Partition, ...]


class PartitionsChanged(Struct, frozen=True, array_like=True, tag=True):
    """New state of existing partitions: leader, in-sync replicas, owner, log directory."""

    name: str
    partitions: tuple[Partition, ...]


class TopicDeleted(Struct, frozen=True, array_like=True, tag=True):
    """`slots` can be reused when every process has applied this version."""

    name: str
    id: UUID
    slots: tuple[int, ...]


class ReplicasRemoved(Struct, frozen=True, array_like=True, tag=True):
    """This broker's replicas of these partitions are removed with their files; the topic stays. Rows have no slot."""

    name: str
    id: UUID
    partitions: tuple[Partition, ...]
    slots: tuple[int, ...]


class TopicConfigChanged(Struct, frozen=True, array_like=True, tag=True):
    name: str
    configs: dict[str, str]


class BrokerConfigChanged(Struct, frozen=True, array_like=True, tag=True):
    """`broker` is an id as text, or empty for the default of all brokers."""

    broker: str
    configs: dict[str, str]


class GroupConfigChanged(Struct, frozen=True, array_like=True, tag=True):
    group_id: str
    configs: dict[str, str]


class BrokersChanged(Struct, frozen=True, array_like=True, tag=True):
    brokers: tuple[Broker, ...]


class ControllerChanged(Struct, frozen=True, array_like=True, tag=True):
    """The cluster has another active controller."""

    id: int


class FeaturesChanged(Struct, frozen=True, array_like=True, tag=True):
    """The new levels of all features."""

    features: dict[str, int]
    epoch: int


class Snapshot(Struct, frozen=True, array_like=True, tag=True):
    """The whole image: replaces the receiver's image of any version."""

    cluster_id: str
    brokers: tuple[Broker, ...]
    topics: tuple[Topic, ...]
    broker_configs: dict[str, dict[str, str]]
    features: dict[str, int] = {}
    features_epoch: int = -1
    group_configs: dict[str, dict[str, str]] = {}
    controller_id: int = NO_CONTROLLER


Change = (
    TopicCreated
    | PartitionsAdded
    | PartitionsChanged
    | TopicDeleted
    | ReplicasRemoved
    | TopicConfigChanged
    | BrokerConfigChanged
    | GroupConfigChanged
    | BrokersChanged
    | ControllerChanged
    | FeaturesChanged
    | Snapshot
)


class MetadataDelta(Struct, frozen=True, array_like=True):
    """The changes that lead from `version` - 1 to `version`."""

    version: int
    changes: tuple[Change, ...]


class MetadataGap(Exception):
    """A delta does not follow the image: request a snapshot."""

    def __init__(self, have: int, got: int) -> None:
        super().__init__(f"metadata delta {got} does not follow version {have}")
        self.have = have
        self.got = got


_encoder = msgpack.Encoder(uuid_format="bytes")
_decoder = msgpack.Decoder(MetadataDelta)


def encode(delta: MetadataDelta) -> bytes:
    return _encoder.encode(delta)


def decode(data: bytes | memoryview) -> MetadataDelta:
    """Raises msgspec.MsgspecError: a bug, because the sender is one of our own processes."""
    return _decoder.decode(data)


def snapshot(image: MetadataImage) -> MetadataDelta:
    """The delta that turns any image into `image`."""
    everything = Snapshot(
        image.cluster_id,
        tuple(image.brokers.values()),
        tuple(image.topics.values()),
        {broker: dict(configs) for broker, configs in image.broker_configs.items()},
        dict(image.features),
        image.features_epoch,
        {group_id: dict(configs) for group_id, configs in image.group_configs.items()},
        image.controller_id,
    )
    return MetadataDelta(image.version, (everything,))


def created_partitions(deltas: Iterable[MetadataDelta]) -> Iterator[TopicPartition]:
    """The partitions that the deltas add."""
    for delta in deltas:
        for change in delta.changes:
            if isinstance(change, TopicCreated):
                yield from (TopicPartition(change.topic.name, row.index) for row in change.topic.partitions)
            elif isinstance(change, PartitionsAdded):
                yield from (TopicPartition(change.name, row.index) for row in change.partitions)


def topics_changed(deltas: Iterable[MetadataDelta]) -> Iterator[str]:
    """The names of the topics that the deltas create, change or delete."""
    for delta in deltas:
        for change in delta.changes:
            match change:
                case TopicCreated(topic):
                    yield topic.name
                case PartitionsAdded(name) | PartitionsChanged(name) | TopicDeleted(name) | ReplicasRemoved(name):
                    yield name
                case TopicConfigChanged(name):
                    yield name
                case _:
                    continue


def deleted_topics(changes: Iterable[Change]) -> dict[str, set[UUID]]:
    """The ids of the deleted topics by name; one name may be deleted several times."""
    deleted: dict[str, set[UUID]] = {}
    for change in changes:
        if isinstance(change, TopicDeleted):
            deleted.setdefault(change.name, set()).add(change.id)
    return deleted


def apply(image: MetadataImage, delta: MetadataDelta) -> MetadataImage:
    """The image after `delta`. Raises `MetadataGap` when a version in between is missing."""
    for change in delta.changes:
        if isinstance(change, Snapshot):
            return _image_of(change, delta.version) if delta.version >= image.version else image
    if delta.version <= image.version:
        return image
    if delta.version != image.version + 1:
        raise MetadataGap(image.version, delta.version)
    return _replay(image, delta)


def _image_of(whole: Snapshot, version: int) -> MetadataImage:
    return MetadataImage(
        version=version,
        cluster_id=whole.cluster_id,
        brokers={broker.id: broker for broker in whole.brokers},
        topics={topic.name: topic for topic in whole.topics},
        names_by_id={topic.id: topic.name for topic in whole.topics},
        broker_configs=dict(whole.broker_configs),
        group_configs=dict(whole.group_configs),
        features=whole.features,
        features_epoch=whole.features_epoch,
        controller_id=whole.controller_id,
    )


def _replay(image: MetadataImage, delta: MetadataDelta) -> MetadataImage:
    topics = dict(image.topics)
    names_by_id = dict(image.names_by_id)
    broker_configs, group_configs = dict(image.broker_configs), dict(image.group_configs)
    brokers = dict(image.brokers)
    features, features_epoch = image.features, image.features_epoch
    controller_id = image.controller_id
    for change in delta.changes:
        match change:
            case TopicCreated(topic):
                topics[topic.name] = topic
                names_by_id[topic.id] = topic.name
            case PartitionsAdded(name, partitions):
                topic = topics[name]
                topics[name] = structs.replace(topic, partitions=topic.partitions + partitions)
            case PartitionsChanged(name, partitions) | ReplicasRemoved(name, _, partitions, _):
                topics[name] = _with_partitions(topics[name], partitions)
            case TopicDeleted(name, topic_id, _):
                del topics[name]
                del names_by_id[topic_id]
            case TopicConfigChanged(name, configs):
                topics[name] = structs.replace(topics[name], configs=configs)
            case BrokerConfigChanged(broker, configs):
                broker_configs[broker] = configs
            case GroupConfigChanged(group_id, configs):
                group_configs[group_id] = configs
            case BrokersChanged(live):
                brokers = {broker.id: broker for broker in live}
            case ControllerChanged(broker):
                controller_id = broker
            case FeaturesChanged(levels, epoch):
                features, features_epoch = levels, epoch
    return replace(
        image,
        version=delta.version,
        brokers=brokers,
        topics=topics,
        names_by_id=names_by_id,
        broker_configs=broker_configs,
        group_configs=group_configs,
        features=features,
        features_epoch=features_epoch,
        controller_id=controller_id,
    )


def _with_partitions(topic: Topic, changed: Iterable[Partition]) -> Topic:
    partitions = list(topic.partitions)
    for partition in changed:
        partitions[partition.index] = partition
    return structs.replace(topic, partitions=tuple(partitions))
