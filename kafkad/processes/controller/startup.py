"""The start of the controller process: open the store, scan the log directories, create the controller.

The store is opened after the fork. If the store and the log directories do not belong together or cannot be read, the
broker stops: the next incarnation of the controller would fail in the same way.
"""

import hashlib
import logging
import random
from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID, uuid4

from kafkad.adapters.files.log_directory import LogDirectory
from kafkad.adapters.operating_system.clocks import wall_clock_ms
from kafkad.adapters.shared_memory.controller_handover import ControllerHandover
from kafkad.adapters.shared_memory.process_registry import FIRST_INCARNATION
from kafkad.adapters.stores.embedded_store import EmbeddedStore
from kafkad.config import BrokerConfig
from kafkad.core.controller.controller import Controller
from kafkad.core.controller.elected.announcing import NO_LOCAL_BROKER
from kafkad.core.controller.image import Listener
from kafkad.core.controller.producer_ids import start_above_foreign_ids
from kafkad.core.controller.settings import ControllerSettings, RandomSource
from kafkad.core.controller.startup.reconciliation import FoundDirectory, Reconciliation, parse_directory
from kafkad.core.controller.startup.startup import Directories, Started, start
from kafkad.core.controller.startup.term import claim, ensure_cluster_id, ensure_paths, register_broker
from kafkad.core.controller.store import nodes
from kafkad.core.controller.topics.topics import TopicDefaults
from kafkad.core.coordination_store import CoordinationStore
from kafkad.core.ports import StorageFailed
from kafkad.core.types import TopicPartition
from kafkad.plugin_loading import chosen
from kafkad.processes.controller.checkpoints import without_records
from kafkad.processes.controller.failover_state import FailoverState, read_failover_state
from kafkad.processes.controller.internal_topics import internal_topics
from kafkad.processes.controller.interrupted_moves import without_sources
from kafkad.processes.controller.log_dirs import (
    claim_all,
    partition_counts,
    proposed_cluster_id,
    scan,
    sync_names,
    unreadable,
)
from kafkad.processes.controller.store.copies import open_store
from kafkad.processes.runtime.child import ChildContext

log = logging.getLogger(__name__)

_MOST_NAMED = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """`unreferenced_slots` are published slots of deleted topics; `offline` are log directories by index."""

    store: EmbeddedStore
    controller: Controller
    random_source: RandomSource
    found: Reconciliation
    offline: frozenset[int]
    unreferenced_slots: tuple[int, ...]


def open_controller(context: ChildContext, handover: ControllerHandover) -> Opened:
    """Raises `LogDirectoryUnusable`, `UnusableMetadata` and `StorageFailed`, which end the broker, and `NoSpaceLeft`.

    A full disk leaves the same state as a crash at that moment.
    """
    directories = context.log_directories
    paths = [directories[0].path, *(each.path for each in directories[1:] if each.is_online)]
    store = open_store(paths, session_id(context.runtime_dir), context.config.node_id)
    try:
        return _opened(context, handover, store)
    except StorageFailed:
        # The next attempt opens the store again, which must not be locked.
        store.close()
        raise


def _opened(context: ChildContext, handover: ControllerHandover, store: EmbeddedStore) -> Opened:
    directories = context.log_directories
    ensure_paths(store)
    failed = handover.offline | {at for at, each in enumerate(directories) if not each.is_online}
    # The first directory has the store, which is open: it can be read.
    failed |= unreadable((at, each) for at, each in enumerate(directories) if at and at not in failed)
    online = [each for at, each in enumerate(directories) if at not in failed]
    proposed = proposed_cluster_id([each.path for each in online])
    cluster_id = ensure_cluster_id(store, proposed or new_cluster_id())
    claim_all(online, cluster_id, context.config.node_id)
    random_source = RandomSource(lambda limit: random.randrange(limit), new_id)
    topics = _stored_topics(store)
    deleted = frozenset(store.children(nodes.DELETIONS))
    failover_state = _failover_state(
        context, handover, {name: topic for name, topic in topics.items() if name not in deleted}
    )
    found, offline = _scan_all(directories, failed, partitions_with_states(store, topics))
    is_first = context.incarnation == FIRST_INCARNATION
    found = without_sources(found, directories, is_first_incarnation=is_first)
    if deleted:
        # Deletions without directories end now. A power failure must not restore one of these directories afterwards.
        for at, cause in sync_names(directories, offline).items():
            log.error("log directory %s can't be synced and is offline: %s", directories[at].path, cause)
            offline |= {at}
    if found:
        # Before a topic is adopted: after a crash in between, its producer ids would count as allocated by this broker.
        start_above_foreign_ids(store, context.config.node_id, wall_clock_ms())
    started = _start(context, store, cluster_id, random_source, failover_state, found, offline)
    _report(started, directories)
    _report_emptied(started.emptied, context)
    return Opened(
        store=store,
        controller=started.controller,
        random_source=random_source,
        found=started.reconciliation,
        offline=offline,
        unreferenced_slots=failover_state.unreferenced if failover_state else (),
    )


def session_id(runtime_dir: Path) -> int:
    """The session of the store lasts as long as the broker, whose runtime directory has a unique name."""
    digest = hashlib.blake2b(runtime_dir.name.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def new_cluster_id() -> str:
    return urlsafe_b64encode(new_id().bytes).decode().rstrip("=")


def new_id() -> UUID:
    """A random id without a leading dash, because command lines would read it as an option."""
    while True:
        generated = uuid4()
        if not urlsafe_b64encode(generated.bytes).startswith(b"-"):
            return generated


def _stored_topics(store: CoordinationStore) -> dict[str, nodes.TopicNode]:
    names = store.children(nodes.TOPICS)
    found = zip(names, store.get_many([nodes.topic_path(name) for name in names]), strict=True)
    return {name: nodes.decode_topic(node.data) for name, node in found if node is not None and node.data}


def partitions_with_states(store: CoordinationStore, topics: Mapping[str, nodes.TopicNode]) -> dict[str, int]:
    """The number of partitions by topic, except for topics whose creation was interrupted before all had a state.

    The first state of an adopted partition requires the epochs in its log. States are written in order of the index.
    """
    last = [nodes.state_path(name, len(node.partitions) - 1) for name, node in topics.items()]
    states = zip(topics.items(), store.get_many(last), strict=True)
    return {name: len(node.partitions) for (name, node), state in states if state is not None and state.data}


def _failover_state(
    context: ChildContext, handover: ControllerHandover, topics: dict[str, nodes.TopicNode]
) -> FailoverState | None:
    if context.incarnation == FIRST_INCARNATION:
        return None
    names = {nodes.decode_id(node.topic_id): name for name, node in topics.items() if node.topic_id}
    return read_failover_state(context.table, handover, names, context.incarnation)


def _scan_all(
    directories: tuple[LogDirectory, ...], failed: frozenset[int], stored: Mapping[str, int]
) -> tuple[list[FoundDirectory], frozenset[int]]:
    is_known = partition_counts(stored)
    found: list[FoundDirectory] = []
    offline = set(failed)
    for at, directory in enumerate(directories):
        if at in offline:
            continue
        try:
            found += list(scan(at, directory.path, is_known))
        except StorageFailed as error:
            log.error("log directory %s can't be read and is offline: %s", directory.path, error)
            offline.add(at)
    return found, frozenset(offline)


def _start(
    context: ChildContext,
    store: CoordinationStore,
    cluster_id: str,
    random_source: RandomSource,
    failover_state: FailoverState | None,
    found: list[FoundDirectory],
    offline: frozenset[int],
) -> Started:
    config = context.config
    assert context.plugins is not None, "the supervisor loads the plugins before it forks"
    wall_ms = wall_clock_ms()
    broker = register_broker(store, config.node_id, registered_listeners(context), config.rack, wall_ms)
    return start(
        store,
        claim(store, config.node_id, wall_ms),
        cluster_id=cluster_id,
        brokers={broker.id: broker},
        settings=settings_of(config, workers=len(context.registry.role("worker"))),
        election=chosen(
            context.plugins.leader_election_strategies,
            config.plugins.leader_election_strategy,
            "kafkad.leader.election.strategy",
        ),
        random_source=random_source,
        directories=Directories(
            found=tuple(found),
            online=frozenset(range(len(config.log_dirs.log_dirs))) - offline,
            offline=offline,
        ),
        inherited=failover_state.inherited if failover_state else None,
    )


def settings_of(config: BrokerConfig, *, workers: int) -> ControllerSettings:
    """The controller's part of the configuration; a reload may change it."""
    topics = config.topics
    return ControllerSettings(
        broker_id=config.node_id,
        workers=workers,
        defaults=TopicDefaults(partitions=topics.num_partitions, replication_factor=topics.default_replication_factor),
        delete_topic_enable=topics.delete_topic_enable,
        unclean_leader_election_enable=config.values["unclean.leader.election.enable"] is True,
        names_broker_epochs=config.cluster is None or config.cluster.versions.names_broker_epochs,
        internal_topics=internal_topics(config),
    )


def elected_settings(config: BrokerConfig) -> ControllerSettings:
    """The settings of the controller of a cluster, which has no partitions of its own."""
    return replace(settings_of(config, workers=1), broker_id=NO_LOCAL_BROKER)


def registered_listeners(context: ChildContext) -> dict[str, Listener]:
    """The endpoints to register: the advertised address; a single broker without one registers that of the listener."""
    listeners = {}
    for listener, endpoint in zip(context.config.network.listeners, context.endpoints, strict=True):
        if listener.advertised is None and context.config.cluster is not None:
            continue
        advertised = listener.advertised or endpoint
        listeners[listener.name] = Listener(
            name=listener.name,
            host=advertised.host,
            port=advertised.port or endpoint.port,
            security_protocol=listener.protocol,
        )
    return listeners


def _report(started: Started, directories: tuple[LogDirectory, ...]) -> None:
    """Log problems that were found, and rename stray directories before a topic needs their names."""
    adopted = [f"{topic.name} ({topic.partitions} partition(s))" for topic in started.reconciliation.adopted]
    if adopted:
        log.warning(
            "%d topic(s) were on disk only and are taken over: %s. Their records are kept for ever, but those of "
            "internal topics, until somebody says otherwise (kafkad adopt): cleanup.policy is delete, retention.ms and "
            "retention.bytes are -1",
            len(adopted),
            ", ".join(adopted),
        )
    for name in started.extended:
        log.warning("topic %s has more partitions on disk than were known; it has them all now", name)
    if started.reconciliation.set_aside:
        aside = [str(directories[each.log_dir].path / each.name) for each in started.reconciliation.set_aside]
        log.warning(
            "%d director(ies) that were set aside are not served and stay as they are: %s", len(aside), _first(aside)
        )
    for stray in started.reconciliation.stray:
        directory = directories[stray.directory.log_dir]
        partition = parse_directory(stray.directory.name)
        assert isinstance(partition, TopicPartition), "only partition directories are stray"
        renamed = directory.mark_leaving(partition, uuid4().hex, "stray")
        log.error(
            "%s has topic id %s, the topic of this name has %s: the directory is renamed to %s and not used",
            directory.path / stray.directory.name,
            stray.directory.topic_id,
            stray.expected_id,
            renamed.name,
        )


def _report_emptied(emptied: Collection[TopicPartition], context: ChildContext) -> None:
    """Log the partitions without directories. A broker may stop before its workers have created those of new topics."""
    if not emptied:
        return
    had_no_records = without_records(context.log_directories, context.was_clean)
    unwritten = Counter(each.topic for each in emptied if each in had_no_records)
    if unwritten:
        log.info(
            "%d partition(s) have no directory yet and had no records when the broker stopped, nothing is lost: %s",
            unwritten.total(),
            _first(f"{topic} ({count} partition(s))" for topic, count in sorted(unwritten.items())),
        )
    lost = [each for each in emptied if each not in had_no_records]
    if lost:
        log.error(
            "records may be lost: %d partition(s) are in no directory of log.dirs and begin anew, empty: %s",
            len(lost),
            _first(map(str, lost)),
        )


def _first(names: Iterable[str]) -> str:
    every = list(names)
    return ", ".join(every[:_MOST_NAMED]) + (", …" if len(every) > _MOST_NAMED else "")
