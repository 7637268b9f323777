"""Starts a broker in a cluster: places the replicas on its disks, and selects the directories to remove.

No directory creates or extends a topic: a topic that was deleted while this broker was down must not come back. The
replicas are loaded before the broker registers, and have no role until the controller assigns it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from kafkad.core.controller.image import (
    NO_LEADER,
    NO_LOG_DIR,
    NO_SLOT,
    Broker,
    MetadataImage,
    Partition,
    Topic,
)
from kafkad.core.controller.partition_rows import make_partition
from kafkad.core.controller.startup.reconciliation import (
    FoundDirectory,
    ReconciledTopic,
    Reconciliation,
    reconcile,
)
from kafkad.core.controller.startup.startup import Directories, SharedMemoryState, moves_under_way
from kafkad.core.controller.store.stored_metadata import PartitionState
from kafkad.core.controller.topics.placement import NO_PLACE, Place, Placement, SlotTable
from kafkad.core.hosting.hosting import Hosting
from kafkad.core.log.segments.layout import directory_name
from kafkad.core.types import NO_LEADER_EPOCH, TopicPartition

_NO_ROLE = PartitionState(leader=NO_LEADER, leader_epoch=NO_LEADER_EPOCH, isr=(), partition_epoch=-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedTopic:
    """A topic of the store; `assignments` are the replicas of each partition."""

    name: str
    id: UUID
    assignments: tuple[tuple[int, ...], ...]
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostStarted:
    """`strays` are of no replica of this broker, `leftovers` are already renamed for deletion."""

    hosting: Hosting
    strays: tuple[tuple[int, TopicPartition], ...]
    leftovers: tuple[FoundDirectory, ...]


def start_host(
    *,
    broker_id: int,
    workers: int,
    cluster_id: str,
    topics: Mapping[str, AssignedTopic],
    broker_configs: Mapping[str, Mapping[str, str]],
    directories: Directories,
    brokers: Mapping[int, Broker] | None = None,
    inherited: SharedMemoryState | None = None,
    is_single: bool = False,
) -> HostStarted:
    """`brokers` are the registered ones. Until the first UpdateMetadata, Metadata responses have them: clients would
    conclude from a single broker that all others have failed.

    Raises `UnusableMetadata` if a partition is in two directories.
    """
    in_store = {name: ReconciledTopic.of(topic.id, topic.assignments, broker_id) for name, topic in topics.items()}
    result = reconcile(in_store, {}, directories.found)
    result.check_duplicates()
    mine = {at: log_dir for at, log_dir in result.located.items() if _is_assigned(at, topics, broker_id)}
    others = [(log_dir, at) for at, log_dir in result.located.items() if at not in mine]
    placement, places = _place(mine, topics, workers, directories, inherited)
    moving = _moving(moves_under_way(result, inherited, directories), places, placement)
    version = (inherited.image.version if inherited else 0) + 1
    rows: dict[str, dict[int, Place]] = {}
    for at, place in places.items():
        rows.setdefault(at.topic, {})[at.partition] = place
    image = MetadataImage(
        version=version,
        cluster_id=cluster_id,
        brokers={each: broker for each, broker in (brokers or {}).items() if each != broker_id},
        topics={name: _topic(topics[name], placed, moving) for name, placed in rows.items()},
        names_by_id={topics[name].id: name for name in rows},
        broker_configs={name: dict(configs) for name, configs in broker_configs.items()},
    )
    placement.free_inherited(version)
    hosting = Hosting(
        broker_id=broker_id,
        image=image,
        placement=placement,
        has_offline_directory=bool(directories.offline),
        is_single=is_single,
    )
    return HostStarted(hosting=hosting, strays=_strays(result, others), leftovers=tuple(result.leftovers))


def _strays(
    result: Reconciliation, others: Sequence[tuple[int, TopicPartition]]
) -> tuple[tuple[int, TopicPartition], ...]:
    """`others` are found partitions without a replica here."""
    named = {directory_name(at): at for _, at in others}
    stray = [(each.directory.log_dir, each.directory.name) for each in result.stray]
    return (*others, *((log_dir, named.get(name) or _partition(name)) for log_dir, name in stray))


def _moving(
    under_way: Mapping[TopicPartition, int], places: Mapping[TopicPartition, Place], placement: Placement
) -> dict[TopicPartition, int]:
    """The target directories of replicas that are being moved; they count there as well."""
    moving = {
        at: log_dir
        for at, log_dir in under_way.items()
        if at in places and places[at].log_dir not in (NO_LOG_DIR, log_dir)
    }
    for log_dir in moving.values():
        placement.moved(NO_LOG_DIR, log_dir)
    return moving


def _partition(name: str) -> TopicPartition:
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))


def _is_assigned(at: TopicPartition, topics: Mapping[str, AssignedTopic], broker_id: int) -> bool:
    topic = topics.get(at.topic)
    return topic is not None and at.partition < len(topic.assignments) and broker_id in topic.assignments[at.partition]


def _place(
    mine: Mapping[TopicPartition, int],
    topics: Mapping[str, AssignedTopic],
    workers: int,
    directories: Directories,
    inherited: SharedMemoryState | None,
) -> tuple[Placement, dict[TopicPartition, Place]]:
    places = _inherited_places(topics, mine, workers, inherited)
    ever_used = inherited.slots_ever_used if inherited else 0
    slots = SlotTable((place.slot for place in places.values()), ever_used=ever_used)
    placement = Placement(slots, workers, sorted(directories.online))
    for place in places.values():
        placement.occupy(place)
    for at, log_dir in mine.items():
        if at not in places:
            places[at] = placement.take_in(log_dir)
    return placement, places


def _inherited_places(
    topics: Mapping[str, AssignedTopic],
    mine: Mapping[TopicPartition, int],
    workers: int,
    inherited: SharedMemoryState | None,
) -> dict[TopicPartition, Place]:
    """The places that running processes use."""
    places: dict[TopicPartition, Place] = {}
    for topic in inherited.image.topics.values() if inherited is not None else ():
        if topic.name not in topics or topics[topic.name].id != topic.id:
            continue
        for row in topic.partitions:
            at = TopicPartition(topic.name, row.index)
            if row.slot != NO_SLOT and row.owner < workers:
                places[at] = Place(row.slot, row.owner, mine.get(at, row.log_dir))
    return places


def _topic(topic: AssignedTopic, places: Mapping[int, Place], moving: Mapping[TopicPartition, int]) -> Topic:
    return Topic(
        name=topic.name,
        id=topic.id,
        partitions=tuple(
            _row(topic, index, places.get(index), moving.get(TopicPartition(topic.name, index), NO_LOG_DIR))
            for index in range(max(places) + 1)
        ),
        configs=dict(topic.configs),
    )


def _row(topic: AssignedTopic, index: int, place: Place | None, future_dir: int) -> Partition:
    """A row without a role: every leader epoch of the controller is newer."""
    replicas = topic.assignments[index] if index < len(topic.assignments) else ()
    return make_partition(index, place or NO_PLACE, replicas, _NO_ROLE, future_dir)
