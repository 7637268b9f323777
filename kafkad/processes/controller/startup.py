"""The start of a single broker: its store and its log directories are made to agree, before replicas are placed.

If they do not belong together or cannot be read, the broker stops: the next incarnation of the controller process would
fail in the same way.
"""

import logging
import random
from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from uuid import UUID, uuid4

from kafkad.adapters.files.log_directory import LogDirectory
from kafkad.adapters.operating_system.clocks import wall_clock_ms
from kafkad.adapters.shared_memory.process_registry import FIRST_INCARNATION
from kafkad.config import BrokerConfig
from kafkad.core.controller.image import Listener
from kafkad.core.controller.producer_ids import start_above_foreign_ids
from kafkad.core.controller.settings import ControllerSettings, RandomSource
from kafkad.core.controller.startup.reconciliation import FoundDirectory, Reconciliation, parse_directory
from kafkad.core.controller.startup.startup import Directories, TakenOver, take_over
from kafkad.core.controller.startup.term import claim, register_broker
from kafkad.core.controller.store import nodes
from kafkad.core.controller.topics.topics import TopicDefaults
from kafkad.core.coordination_store import CoordinationStore
from kafkad.core.hosting.start import AssignedTopic
from kafkad.core.types import TopicPartition
from kafkad.plugin_loading import chosen
from kafkad.processes.controller.checkpoints import without_records
from kafkad.processes.controller.internal_topics import internal_topics
from kafkad.processes.runtime.child import ChildContext

log = logging.getLogger(__name__)

_MOST_NAMED = 10


def take_over_directories(
    context: ChildContext, store: CoordinationStore, found: list[FoundDirectory], offline: frozenset[int]
) -> list[FoundDirectory]:
    """Register the broker, and make its store agree with the directories. Returns the directories that it may use.

    Raises `UnusableMetadata`, and the errors of the store.
    """
    config, directories = context.config, context.log_directories
    assert context.plugins is not None, "the supervisor loads the plugins before it forks"
    wall_ms = wall_clock_ms()
    if found:
        # Before a topic is adopted: after a crash in between, its producer ids would count as allocated by this broker.
        start_above_foreign_ids(store, config.node_id, wall_ms)
    broker = register_broker(store, config.node_id, registered_listeners(context), config.rack, wall_ms)
    taken_over = take_over(
        store,
        claim(store, config.node_id, wall_ms),
        broker=broker,
        settings=settings_of(config),
        election=chosen(
            context.plugins.leader_election_strategies,
            config.plugins.leader_election_strategy,
            "kafkad.leader.election.strategy",
        ),
        random_source=random_source(),
        directories=Directories(
            found=tuple(found),
            online=frozenset(range(len(directories))) - offline,
            offline=offline,
        ),
    )
    _report(taken_over, directories)
    if context.incarnation == FIRST_INCARNATION:
        _report_emptied(taken_over.emptied, context)
    strays = _set_strays_aside(taken_over.reconciliation, directories)
    return [each for each in found if each not in strays]


def random_source() -> RandomSource:
    return RandomSource(lambda limit: random.randrange(limit), new_id)


def new_cluster_id() -> str:
    return urlsafe_b64encode(new_id().bytes).decode().rstrip("=")


def new_id() -> UUID:
    """A random id without a leading dash, because command lines would read it as an option."""
    while True:
        generated = uuid4()
        if not urlsafe_b64encode(generated.bytes).startswith(b"-"):
            return generated


def partitions_with_states(store: CoordinationStore, topics: Mapping[str, AssignedTopic]) -> dict[str, int]:
    """The number of partitions by topic, except for topics whose creation was interrupted before all had a state.

    The first state of an adopted partition requires the epochs in its log. States are written in order of the index.
    """
    last = [nodes.state_path(name, len(topic.assignments) - 1) for name, topic in topics.items()]
    states = zip(topics.items(), store.get_many(last), strict=True)
    return {name: len(topic.assignments) for (name, topic), state in states if state is not None and state.data}


def settings_of(config: BrokerConfig) -> ControllerSettings:
    """The controller's part of the configuration; a reload may change it."""
    topics = config.topics
    return ControllerSettings(
        defaults=TopicDefaults(partitions=topics.num_partitions, replication_factor=topics.default_replication_factor),
        is_single=config.cluster is None,
        delete_topic_enable=topics.delete_topic_enable,
        unclean_leader_election_enable=config.values["unclean.leader.election.enable"] is True,
        names_broker_epochs=config.cluster is None or config.cluster.versions.names_broker_epochs,
        internal_topics=internal_topics(config),
    )


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


def _report(taken_over: TakenOver, directories: tuple[LogDirectory, ...]) -> None:
    adopted = [f"{topic.name} ({topic.partitions} partition(s))" for topic in taken_over.reconciliation.adopted]
    if adopted:
        log.warning(
            "%d topic(s) were on disk only and are taken over: %s. Their records are kept for ever, but those of "
            "internal topics, until somebody says otherwise (kafkad adopt): cleanup.policy is delete, retention.ms and "
            "retention.bytes are -1",
            len(adopted),
            ", ".join(adopted),
        )
    for name in taken_over.extended:
        log.warning("topic %s has more partitions on disk than were known; it has them all now", name)
    if taken_over.reconciliation.set_aside:
        aside = [str(directories[each.log_dir].path / each.name) for each in taken_over.reconciliation.set_aside]
        log.warning(
            "%d director(ies) that were set aside are not served and stay as they are: %s", len(aside), _first(aside)
        )


def _set_strays_aside(found: Reconciliation, directories: tuple[LogDirectory, ...]) -> list[FoundDirectory]:
    """Rename stray directories before a topic needs their names. Returns them."""
    for stray in found.stray:
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
    return [stray.directory for stray in found.stray]


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
