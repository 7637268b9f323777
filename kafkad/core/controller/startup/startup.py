"""Starts a controller: from the store and the log directories to the first metadata image.

It completes unfinished changes of the last incarnation: topics without partition states, deletions, leaders of
partitions that are online again. The shell carries out the actions in `Started` before it serves clients.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from kafkad.core.controller.controller import Controller
from kafkad.core.controller.electorate import Electorate
from kafkad.core.controller.features import first_levels
from kafkad.core.controller.image import NO_LOG_DIR, NO_SLOT, Broker, MetadataImage, Partition, Topic
from kafkad.core.controller.partition_rows import make_partition
from kafkad.core.controller.settings import ControllerSettings, RandomSource
from kafkad.core.controller.startup.reconciliation import FoundDirectory, ReconciledTopic, Reconciliation, reconcile
from kafkad.core.controller.startup.repair import adopt, complete_states, extend, identify
from kafkad.core.controller.startup.term import Term
from kafkad.core.controller.store.stored_metadata import PartitionState, StoredMetadata, StoredTopic
from kafkad.core.controller.store.tree import MetadataTree
from kafkad.core.controller.topics.assignment import Assignment
from kafkad.core.controller.topics.pending_deletion import OFFLINE, PendingDeletion
from kafkad.core.controller.topics.placement import NO_PLACE, Place, Placement, SlotTable
from kafkad.core.coordination_store import CoordinationStore
from kafkad.core.election import LeaderElectionStrategy
from kafkad.core.types import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Directories:
    """The log directories that the shell found, by their index in log.dirs."""

    found: tuple[FoundDirectory, ...]
    online: frozenset[int]
    offline: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedMemoryState:
    """The state that a restarted controller process inherits from the processes that are still running."""

    image: MetadataImage
    slots_ever_used: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """`reconciliation`: the shell carries out `deleting`, `leftovers` and `stray`, and logs the other actions."""

    controller: Controller
    reconciliation: Reconciliation
    extended: tuple[str, ...]
    """Topics with more partitions on disk than in the store had; the store has all of them now."""
    emptied: tuple[TopicPartition, ...] = ()
    """Partitions of an earlier incarnation of the broker that are in no log directory: they start empty."""


def start(
    store: CoordinationStore,
    term: Term,
    *,
    cluster_id: str,
    brokers: Mapping[int, Broker],
    settings: ControllerSettings,
    election: LeaderElectionStrategy,
    random_source: RandomSource,
    directories: Directories,
    inherited: SharedMemoryState | None = None,
) -> Started:
    """Read, reconcile, repair. Raises `UnusableMetadata`, and the errors of the store."""
    tree = MetadataTree(store, term)
    tree.prune_notifications()
    stored = tree.load()
    topics = identify(tree, stored.topics, random_source.new_topic_id)
    broker_id = settings.broker_id
    in_store = {name: ReconciledTopic.of(topic.id, topic.assignments, broker_id) for name, topic in topics.items()}
    deleted_ids = {name: record.topic_id for name, record in stored.deletions.items()}
    result = reconcile(in_store, deleted_ids, directories.found)
    result.check_duplicates()
    extended = extend(tree, topics, result.located, broker_id)
    topics |= adopt(tree, result.adopted, settings, random_source.new_topic_id)
    unavailable = frozenset(_unavailable(topics, result, directories))
    electorate = Electorate(election, brokers)
    states = complete_states(tree, topics, result.leader_epochs, unavailable, electorate, broker_id)
    placement, places = _place(topics, result, unavailable, settings, directories, inherited)
    moving = moves_under_way(result, inherited, directories)
    image = MetadataImage(
        version=(inherited.image.version if inherited else 0) + 1,
        cluster_id=cluster_id,
        brokers=dict(brokers),
        topics={name: _topic(topic, places, states, moving) for name, topic in topics.items()},
        names_by_id={topic.id: name for name, topic in topics.items()},
        broker_configs=stored.broker_configs,
        group_configs=stored.group_configs,
    )
    _inherit(placement, image)
    controller = Controller(
        settings=settings,
        tree=tree,
        election=election,
        image=_with_features(image, tree),
        placement=placement,
        deletions=_pending(stored, result, directories),
    )
    _finish_deletions(controller)
    emptied = () if inherited or directories.offline else _opened_before(stored.topics, result.missing)
    return Started(controller=controller, reconciliation=result, extended=extended, emptied=emptied)


def _inherit(placement: Placement, image: MetadataImage) -> None:
    """Moves in progress count in their target directories too; unused slots are freed after the grace period."""
    placement.free_inherited(image.version)
    for topic in image.topics.values():
        for row in topic.partitions:
            placement.moved(NO_LOG_DIR, row.future_dir)


def _finish_deletions(controller: Controller) -> None:
    """Finish the deletions of topics that have no directories left."""
    for name in list(controller.deletions):
        controller.partitions_deleted(name, ())
    while controller.has_unfinished_deletions:
        controller.finish_deletions()


def _with_features(image: MetadataImage, tree: MetadataTree) -> MetadataImage:
    """With the finalized levels of the cluster; a new cluster gets the levels of this version."""
    features = tree.load_features()
    if features is None:
        features = first_levels(), tree.set_features(first_levels())
    return replace(image, features=features[0], features_epoch=features[1])


def _unavailable(
    topics: Mapping[str, StoredTopic], result: Reconciliation, directories: Directories
) -> list[TopicPartition]:
    # A partition without a state was never opened: it is on no disk, and can be created in any directory.
    if not directories.offline:
        return []
    return [each for each in result.missing if each.partition in topics[each.topic].states]


def _opened_before(stored: Mapping[str, StoredTopic], missing: Iterable[TopicPartition]) -> tuple[TopicPartition, ...]:
    return tuple(each for each in missing if each.topic in stored and each.partition in stored[each.topic].states)


def _place(
    topics: Mapping[str, StoredTopic],
    result: Reconciliation,
    unavailable: frozenset[TopicPartition],
    settings: ControllerSettings,
    directories: Directories,
    inherited: SharedMemoryState | None,
) -> tuple[Placement, dict[TopicPartition, Place]]:
    """First partitions of running processes, then those on disk; new ones get the directory with the fewest."""
    places = _inherited_places(topics, result, settings.workers, inherited)
    ever_used = inherited.slots_ever_used if inherited else 0
    slots = SlotTable((place.slot for place in places.values()), ever_used=ever_used)
    placement = Placement(slots, settings.workers, sorted(directories.online))
    for place in places.values():
        placement.occupy(place)
    new = []
    for name, topic in topics.items():
        for index, replicas in enumerate(topic.assignments):
            partition = TopicPartition(name, index)
            if settings.broker_id not in replicas or partition in places:
                continue
            if partition in result.located:
                places[partition] = placement.take_in(result.located[partition])
            elif partition in unavailable:
                places[partition] = placement.take_in(NO_LOG_DIR)
            else:
                new.append(partition)
    places.update(zip(new, placement.take(len(new)), strict=True))
    return placement, places


def _inherited_places(
    topics: Mapping[str, StoredTopic], result: Reconciliation, workers: int, inherited: SharedMemoryState | None
) -> dict[TopicPartition, Place]:
    if inherited is None:
        return {}
    places = {}
    for name, topic in inherited.image.topics.items():
        if name not in topics or topics[name].id != topic.id:
            continue
        for partition in topic.partitions:
            at = TopicPartition(name, partition.index)
            if partition.slot != NO_SLOT and partition.owner < workers:
                log_dir = result.located.get(at, partition.log_dir)
                places[at] = Place(partition.slot, partition.owner, log_dir)
    return places


def _topic(
    topic: StoredTopic,
    places: Mapping[TopicPartition, Place],
    states: Mapping[TopicPartition, PartitionState],
    moving: Mapping[TopicPartition, int],
) -> Topic:
    partitions = tuple(
        _partition(TopicPartition(topic.name, index), replicas, places, states, moving)
        for index, replicas in enumerate(topic.assignments)
    )
    return Topic(name=topic.name, id=topic.id, partitions=partitions, configs=topic.configs)


def _partition(
    at: TopicPartition,
    replicas: Assignment,
    places: Mapping[TopicPartition, Place],
    states: Mapping[TopicPartition, PartitionState],
    moving: Mapping[TopicPartition, int],
) -> Partition:
    place = places.get(at, NO_PLACE)
    future_dir = moving.get(at, NO_LOG_DIR)
    if NO_LOG_DIR in (place.log_dir, future_dir) or place.log_dir == future_dir:
        future_dir = NO_LOG_DIR
    return make_partition(at.partition, place, replicas, states[at], future_dir)


def moves_under_way(
    result: Reconciliation, inherited: SharedMemoryState | None, directories: Directories
) -> dict[TopicPartition, int]:
    """The moves in progress: from the inherited image, or else from the future directories on disk."""
    if inherited is None:
        return result.moving
    return {
        TopicPartition(topic.name, row.index): row.future_dir
        for topic in inherited.image.topics.values()
        for row in topic.partitions
        if row.future_dir in directories.online
    }


def _pending(stored: StoredMetadata, result: Reconciliation, directories: Directories) -> dict[str, PendingDeletion]:
    offline = {OFFLINE} if directories.offline else set()
    pending = {name: PendingDeletion(record.partitions, set(offline)) for name, record in stored.deletions.items()}
    for _, topic, partition in result.deleting:
        pending[topic].remaining.add(partition)
    return pending
