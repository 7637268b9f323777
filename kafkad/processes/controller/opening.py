"""The start of the controller process: from a session to the first metadata, and registration.

All functions wait for the coordination store, so they run in its thread.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from kafkad.adapters.files.log_directory import LogDirectory
from kafkad.adapters.operating_system.clocks import wall_clock_ms
from kafkad.adapters.shared_memory.controller_handover import ControllerHandover
from kafkad.adapters.shared_memory.process_registry import FIRST_INCARNATION
from kafkad.adapters.stores.embedded_store import FILE_NAME
from kafkad.adapters.stores.store_copy import COPY_NAME
from kafkad.core.controller.elected.registrations import live_brokers
from kafkad.core.controller.image import Broker, Listener
from kafkad.core.controller.startup.reconciliation import FoundDirectory, UnusableMetadata
from kafkad.core.controller.startup.startup import Directories
from kafkad.core.controller.startup.term import ensure_cluster_id, ensure_paths
from kafkad.core.controller.store import nodes
from kafkad.core.coordination_store import CoordinationError, CoordinationStore
from kafkad.core.hosting.hosting import Hosting
from kafkad.core.hosting.registration import RegistrationPending, has_earlier_session, try_to_register
from kafkad.core.hosting.replicas_without_space import hosted_replicas
from kafkad.core.hosting.resuming import StoredRoles, resume
from kafkad.core.hosting.start import AssignedTopic, HostStarted, start_host
from kafkad.core.log.segments.layout import directory_name
from kafkad.core.ports import StorageFailed
from kafkad.core.types import TopicPartition
from kafkad.processes.controller.failover_state import read_failover_state
from kafkad.processes.controller.interrupted_moves import without_sources
from kafkad.processes.controller.log_dirs import claim_all, partition_counts, proposed_cluster_id, scan, unreadable
from kafkad.processes.controller.startup import (
    new_cluster_id,
    partitions_with_states,
    registered_listeners,
    take_over_directories,
)
from kafkad.processes.controller.store.sessions import Sessions
from kafkad.processes.controller.tree_reader import (
    ConfigChanges,
    broker_configs,
    elected,
    finalized_features,
    group_configs,
    partition_states,
    read_topics,
)
from kafkad.processes.runtime.child import ChildContext

log = logging.getLogger(__name__)

EARLIER_SESSION_CHECK_S = 0.2
_MOST_NAMED = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedHost:
    """`unreferenced_slots` are published slots of removed partitions; `offline` are log directories by index."""

    store: CoordinationStore
    hosting: Hosting
    changes: ConfigChanges
    offline: frozenset[int]
    unreferenced_slots: tuple[int, ...]
    leftovers: tuple[Path, ...]
    missing: tuple[TopicPartition, ...]
    """Hosted partitions whose directories will be created."""


def open_host(context: ChildContext, handover: ControllerHandover, sessions: Sessions) -> OpenedHost:
    """Raises `LogDirectoryUnusable` and `UnusableMetadata`, which end the broker, `StorageFailed` and `Stopped`."""
    directories = context.log_directories
    is_single = context.config.cluster is None
    if not is_single and any((directories[0].path / name).exists() for name in (FILE_NAME, COPY_NAME)):
        raise UnusableMetadata(
            f"{directories[0].path} belongs to a single broker, which stores its topics there: use another log.dirs "
            "in a cluster, or remove zookeeper.connect"
        )
    return sessions.begin(lambda store: _opened(context, handover, store))


def _opened(context: ChildContext, handover: ControllerHandover, store: CoordinationStore) -> OpenedHost:
    config = context.config
    directories = context.log_directories
    ensure_paths(store)
    if config.cluster is not None:
        # First, so that a rejected broker has changed and loaded nothing.
        has_earlier_session(store, config.node_id, registered_listeners(context).values())
    failed = _failed(context, handover)
    cluster_id = _claim(context, store, [each for at, each in enumerate(directories) if at not in failed])
    changes = ConfigChanges()
    changes.watch(store)
    topics, left_out = read_topics(store)
    found, offline = _scan(context, failed, _counts(context, store, topics))
    is_first = context.incarnation == FIRST_INCARNATION
    found = without_sources(found, directories, is_first_incarnation=is_first)
    if config.cluster is None:
        found = take_over_directories(context, store, found, offline)
        topics, left_out = read_topics(store)
    # The directories of unreadable topics stay unchanged: after a repair of the node, the replicas have their records.
    found = [each for each in found if each.name.rpartition("-")[0] not in left_out]
    names = {topic.id: name for name, topic in topics.items()}
    inherited = None if is_first else read_failover_state(context.table, handover, names, context.incarnation)
    started = start_host(
        broker_id=config.node_id,
        workers=len(context.registry.role("worker")),
        cluster_id=cluster_id,
        topics=topics,
        broker_configs=broker_configs(store),
        brokers=live_brokers(store, config.inter_broker_listener, watch=False)[0],
        directories=Directories(
            found=tuple(found),
            online=frozenset(range(len(directories))) - offline,
            offline=offline,
        ),
        inherited=inherited.inherited if inherited is not None else None,
        is_single=config.cluster is None,
    )
    started.hosting.set_initial(*finalized_features(store), group_configs(store))
    _set_strays_aside(started, directories)
    if not is_first or config.cluster is None:
        _resume(context, store, started.hosting, topics)
    return OpenedHost(
        store=store,
        hosting=started.hosting,
        changes=changes,
        offline=offline,
        unreferenced_slots=inherited.unreferenced if inherited is not None else (),
        leftovers=tuple(directories[each.log_dir].path / each.name for each in started.leftovers),
        missing=_missing(started.hosting, found),
    )


def _missing(hosting: Hosting, found: Iterable[FoundDirectory]) -> tuple[TopicPartition, ...]:
    named = {each.name for each in found}
    return tuple(at for at in hosted_replicas(hosting.image) if directory_name(at) not in named)


def _failed(context: ChildContext, handover: ControllerHandover) -> frozenset[int]:
    """The log directories that have failed, or can't be read now."""
    directories = context.log_directories
    failed = handover.offline | {at for at, each in enumerate(directories) if not each.is_online}
    # The first directory of a single broker has the store, which is open: it can be read.
    first = 0 if context.config.cluster is not None else 1
    return failed | unreadable((at, each) for at, each in enumerate(directories) if at >= first and at not in failed)


def _claim(context: ChildContext, store: CoordinationStore, online: list[LogDirectory]) -> str:
    """Claim the directories for this broker, and return the cluster id."""
    node_id = context.config.node_id
    if context.config.cluster is None:
        proposed = proposed_cluster_id([each.path for each in online])
        cluster_id = ensure_cluster_id(store, proposed or new_cluster_id())
        claim_all(online, cluster_id, node_id)
        return cluster_id
    # Never the cluster id of the directories: a ZooKeeper without one is another ensemble, or has lost all data.
    cluster_id = ensure_cluster_id(store, new_cluster_id())
    for each in online:
        each.claim_in_cluster(cluster_id=cluster_id, node_id=node_id)
    return cluster_id


def _counts(context: ChildContext, store: CoordinationStore, topics: Mapping[str, AssignedTopic]) -> Mapping[str, int]:
    """The number of partitions by topic; a directory of another partition is read for its leader epoch."""
    if context.config.cluster is None:
        return partitions_with_states(store, topics)
    return {name: len(topic.assignments) for name, topic in topics.items()}


def _resume(
    context: ChildContext, store: CoordinationStore, hosting: Hosting, topics: Mapping[str, AssignedTopic]
) -> None:
    """If the registration belongs to this session, the broker keeps its roles."""
    config = context.config
    registration = store.exists(f"{nodes.BROKER_IDS}/{config.node_id}")
    if registration is None or registration.ephemeral_owner != store.session_id:
        return
    listener = config.inter_broker_listener
    brokers, _ = live_brokers(store, listener, watch=False)
    if config.node_id not in brokers:
        return
    controller_id, controller_epoch = elected(store)
    stored = StoredRoles(
        controller_id=controller_id,
        controller_epoch=controller_epoch,
        listener=listener,
        brokers=brokers,
        topics=topics,
        states=partition_states(store, topics),
    )
    resume(hosting, config.node_id, stored)
    if context.incarnation > FIRST_INCARNATION:
        log.info("resumed the session of the previous controller process: this broker keeps its roles")


def _scan(
    context: ChildContext, failed: frozenset[int], stored: Mapping[str, int]
) -> tuple[list[FoundDirectory], frozenset[int]]:
    is_known = partition_counts(stored)
    found: list[FoundDirectory] = []
    offline = set(failed)
    for at, directory in enumerate(context.log_directories):
        if at in offline:
            continue
        try:
            found += list(scan(at, directory.path, is_known))
        except StorageFailed as error:
            log.error("log directory %s can't be read and is offline: %s", directory.path, error)
            offline.add(at)
    return found, frozenset(offline)


def _set_strays_aside(started: HostStarted, directories: tuple[LogDirectory, ...]) -> None:
    """Rename stray directories. They are not deleted, because the deletion or reassignment may have been a mistake."""
    renamed: list[TopicPartition] = []
    for log_dir, partition in started.strays:
        try:
            directories[log_dir].mark_leaving(partition, uuid4().hex, "stray")
        except StorageFailed as error:
            log.error("%s can't be renamed: %s", directories[log_dir].path / str(partition), error)
        else:
            renamed.append(partition)
    if renamed:
        shown = ", ".join(str(each) for each in renamed[:_MOST_NAMED]) + (", …" if len(renamed) > _MOST_NAMED else "")
        log.error(
            "%d director(ies) belong to no replica of this broker and are renamed to …-stray: %s",
            len(renamed),
            shown,
        )


def register(
    context: ChildContext,
    store: CoordinationStore,
    sessions: Sessions,
    listeners: tuple[Listener, ...],
    report_status: Callable[[str], None],
) -> Broker:
    """Waits for an earlier session of this broker to end. Raises `UnusableMetadata`, `Stopped`, the store's errors."""
    config = context.config
    has_logged = False
    while True:
        try:
            found = try_to_register(store, config.node_id, listeners, config.rack, wall_clock_ms())
        except CoordinationError:
            # Pause, as the next attempt follows at once.
            sessions.pause(EARLIER_SESSION_CHECK_S)
            raise
        if not isinstance(found, RegistrationPending):
            return found
        if not has_logged:
            log.warning("broker %d waits for the session timeout: %s", config.node_id, found.value)
            report_status("waiting for an earlier session to end")
        has_logged = True
        sessions.pause(EARLIER_SESSION_CHECK_S)
