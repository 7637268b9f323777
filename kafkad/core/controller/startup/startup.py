"""The start of a single broker: its log directories are the truth about its topics, its store is made to agree.

It completes unfinished changes of the last incarnation: topics without partition states, leaders of partitions that are
online again. Topics that are on disk only are taken over. In a cluster, no directory creates or extends a topic.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kafkad.core.controller.electorate import Electorate
from kafkad.core.controller.features import first_levels
from kafkad.core.controller.image import Broker, MetadataImage
from kafkad.core.controller.settings import ControllerSettings, RandomSource
from kafkad.core.controller.startup.reconciliation import FoundDirectory, ReconciledTopic, Reconciliation, reconcile
from kafkad.core.controller.startup.repair import adopt, complete_states, extend, identify
from kafkad.core.controller.startup.term import Term
from kafkad.core.controller.store.stored_metadata import StoredTopic
from kafkad.core.controller.store.tree import MetadataTree
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
class TakenOver:
    """What the shell logs, except for `reconciliation.deleting` and `leftovers`, which it carries out."""

    reconciliation: Reconciliation
    extended: tuple[str, ...]
    """Topics with more partitions on disk than the store had; the store has all of them now."""
    emptied: tuple[TopicPartition, ...]
    """Partitions of an earlier incarnation of the broker that are in no log directory: they start empty."""


def take_over(
    store: CoordinationStore,
    term: Term,
    *,
    broker: Broker,
    settings: ControllerSettings,
    election: LeaderElectionStrategy,
    random_source: RandomSource,
    directories: Directories,
) -> TakenOver:
    """Read, reconcile, repair. Raises `UnusableMetadata`, and the errors of the store."""
    tree = MetadataTree(store, term)
    tree.prune_notifications()
    stored = tree.load()
    topics = identify(tree, stored.topics, random_source.new_topic_id)
    in_store = {name: ReconciledTopic.of(topic.id, topic.assignments, broker.id) for name, topic in topics.items()}
    deleted_ids = {name: record.topic_id for name, record in stored.deletions.items()}
    result = reconcile(in_store, deleted_ids, directories.found)
    result.check_duplicates()
    extended = extend(tree, topics, result.located, broker.id)
    topics |= adopt(tree, result.adopted, broker.id, settings, random_source.new_topic_id)
    unavailable = frozenset(_unavailable(topics, result, directories))
    electorate = Electorate(election, {broker.id: broker})
    complete_states(tree, topics, result.leader_epochs, unavailable, electorate, broker.id)
    if tree.load_features() is None:
        tree.set_features(first_levels())
    emptied = () if directories.offline else _opened_before(stored.topics, result.missing)
    return TakenOver(reconciliation=result, extended=extended, emptied=emptied)


def _unavailable(
    topics: Mapping[str, StoredTopic], result: Reconciliation, directories: Directories
) -> list[TopicPartition]:
    # A partition without a state was never opened: it is on no disk, and can be created in any directory.
    if not directories.offline:
        return []
    return [each for each in result.missing if each.partition in topics[each.topic].states]


def _opened_before(stored: Mapping[str, StoredTopic], missing: Iterable[TopicPartition]) -> tuple[TopicPartition, ...]:
    return tuple(each for each in missing if each.topic in stored and each.partition in stored[each.topic].states)


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
