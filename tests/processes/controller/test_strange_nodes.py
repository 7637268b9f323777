"""Strangers write anything into any node of ZooKeeper: no controller ends, nor any broker's controller process.

Each value of each node is replaced by others, one at a time. Then a controller is elected that tells everything, and a
broker starts and reads what it needs. What can't be read may be left out or refused, in words.
"""

import json
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kafkad.adapters.stores.embedded_store import EmbeddedStore
from kafkad.core.cluster.protocol_versions import LEVELS, protocol_versions
from kafkad.core.controller.controller import PlannedTopic
from kafkad.core.controller.elected.announcements import Announcer
from kafkad.core.controller.elected.controller_failover import controller_failover
from kafkad.core.controller.elected.elected import ElectedController
from kafkad.core.controller.elected.node_orders import NodeOrders, stored_states, take_isr_changes, take_log_dir_events
from kafkad.core.controller.elected.registrations import live_brokers, remove_unsupported
from kafkad.core.controller.image import Listener
from kafkad.core.controller.producer_ids import ProducerIdControlManager
from kafkad.core.controller.settings import ControllerSettings
from kafkad.core.controller.startup.reconciliation import UnusableMetadata
from kafkad.core.controller.startup.startup import Directories
from kafkad.core.controller.startup.term import (
    UnreadableEpoch,
    claim,
    ensure_cluster_id,
    ensure_paths,
    register_broker,
)
from kafkad.core.controller.store import nodes
from kafkad.core.controller.store.tree import MetadataTree
from kafkad.core.controller.store.unreadable_nodes import UnreadableNodes
from kafkad.core.controller.topics.topics import TopicDefaults
from kafkad.core.coordination_store import NoNode
from kafkad.core.errors import ErrorCode
from kafkad.core.hosting.hosting import Hosting
from kafkad.core.hosting.registration import has_earlier_session
from kafkad.core.hosting.resuming import StoredRoles, resume
from kafkad.core.hosting.start import start_host
from kafkad.handlers import metadata
from kafkad.handlers.requests.broker_view import BrokerView
from kafkad.plugins.leader_election import PreferredReplica
from kafkad.processes.controller.requests.broker_channels import encoded
from kafkad.processes.controller.tree_reader import (
    ConfigChanges,
    broker_configs,
    elected,
    finalized_features,
    group_configs,
    partition_states,
    read_topics,
)
from kafkad.wire.messages.metadata import MetadataRequest
from tests.contexts import a_context
from tests.handlers.stepping import finished
from tests.handlers.views import a_view

LISTENER = "PLAINTEXT"
PLAIN = Listener(name=LISTENER, host="b", port=9092, security_protocol="PLAINTEXT")
TEXTS = (
    *(b"", b"no JSON", b"null", b"[]", b"{}", b"1", b'"x"', b"\xff\xfe"),
    *(b"[" * 100_000, b'{"x":' * 50_000, b"9" * 5_000),
)
VALUES: tuple[Any, ...] = (
    *(None, -1, 2**31 - 1, 2**63),
    *("", "9" * 5_000, "\ud800", "ü" * 20_000, "a/../b"),
    *([], [-1], [1, 1], {"9" * 5_000: [1]}),
)


def made() -> EmbeddedStore:
    """A cluster of three brokers with two topics, whose tools and brokers have just written all that they may write."""
    store = EmbeddedStore(Path(":memory:"), 1)
    ensure_paths(store)
    ensure_cluster_id(store, "c")
    for broker in (1, 2, 3):
        register_broker(store, broker, {LISTENER: PLAIN}, "r", 1_000)
    controller = a_controller(store)
    plans = {"fine": UUID(int=7), "odd": UUID(int=8), "dying": UUID(int=9)}
    assignments, configs = ((1, 2), (2, 1)), {"retention.ms": "1"}
    controller.create_topics(
        [PlannedTopic(name=name, id=at, assignments=assignments, configs=configs) for name, at in plans.items()]
    )
    controller.delete_topics(["dying"])
    partition = {"topic": "odd", "partition": 0}
    for path, written in {
        nodes.broker_config_path("1"): {"version": 1, "config": {"log.retention.ms": "1"}},
        nodes.group_config_path("g"): {"version": 1, "config": {"consumer.session.timeout.ms": "50000"}},
        f"{nodes.CONFIG_CHANGE}0": {"version": 2, "entity_path": "topics/odd"},
        f"{nodes.CONFIG_CHANGE}1": {"version": 1, "entity_type": "brokers", "entity_name": "1"},
        f"{nodes.LOG_DIR_EVENT}0": {"version": 1, "broker": 3, "event": 1},
        f"{nodes.ISR_CHANGES}/isr_change_0": {"version": 1, "partitions": [partition]},
        nodes.PREFERRED_ELECTION: {"version": 1, "partitions": [partition]},
        nodes.REASSIGNMENT: {"version": 1, "partitions": [{**partition, "replicas": [2, 3]}]},
    }.items():
        store.create(path, json.dumps(written).encode())
    store.set_data(
        nodes.topic_path("odd"),
        b'{"partitions":{"0":[1,2],"1":[3,2,1]},"topic_id":"%s","adding_replicas":{"1":[3]},"removing_replicas":{},'
        b'"version":3}' % nodes.encode_id(UUID(int=8)).encode(),
    )
    ProducerIdControlManager(store, 1).allocate()
    return store


def a_controller(store: EmbeddedStore) -> ElectedController:
    """As `ElectableController.run` has it."""
    term = claim(store, 1, 1_000)
    brokers, _ = live_brokers(store, LISTENER, watch=True)
    remove_unsupported(brokers, finalized_features(store)[0])
    tree = MetadataTree(store, term)
    states = stored_states(store, take_isr_changes(tree))
    tree.load_broker_configs()
    settings = ControllerSettings(
        defaults=TopicDefaults(partitions=1, replication_factor=1),
        delete_topic_enable=True,
    )
    controller = controller_failover(
        store,
        tree,
        settings=settings,
        election=PreferredReplica(),
        announcer=Announcer(controller_id=1, controller_epoch=term.epoch, listener=LISTENER, brokers=brokers),
        cluster_id="c",
        new_topic_id=lambda: UUID(int=10),
        left_out=UnreadableNodes(),
    )
    controller.isr_changed(states)
    controller.directories_failed(take_log_dir_events(tree))
    NodeOrders(controller, store, term, lambda _lines: None).carry_out()
    return controller


def live_through(store: EmbeddedStore) -> None:
    """A term of a controller. Raises UnreadableEpoch and UnusableMetadata."""
    controller = a_controller(store)
    brokers, _ = live_brokers(store, LISTENER, watch=False)
    for gone in (*brokers, None):
        controller.brokers_changed({each: broker for each, broker in brokers.items() if each != gone})
        tell(controller)
    controller.balance_leaders(0)
    for name in ("odd", "dying"):
        if name in controller.image.topics:
            controller.delete_topics([name])
        for broker in (1, 2, 3):
            controller.replicas_deleted([name], broker)
    tell(controller)


def tell(controller: ElectedController) -> None:
    requests = controller.take_requests()
    for level in (LEVELS[0], LEVELS[-1]):
        encoded(requests, own_id=-2, versions=protocol_versions(level))


def start(store: EmbeddedStore) -> None:
    """A broker starts, and goes on with the registration that it has. Raises UnusableMetadata."""
    has_earlier_session(store, 4, [PLAIN])
    ensure_cluster_id(store, "other")
    changes = ConfigChanges()
    changes.read(store)
    changes.session_lost()
    changes.read(store)
    topics, _ = read_topics(store)
    brokers, _ = live_brokers(store, LISTENER, watch=False)
    started = start_host(
        broker_id=1,
        workers=1,
        cluster_id="c",
        topics=topics,
        broker_configs=broker_configs(store),
        brokers=brokers,
        directories=Directories(found=(), online=frozenset((0,))),
    )
    hosting = started.hosting
    hosting.set_initial(*finalized_features(store), group_configs(store))
    controller_id, controller_epoch = elected(store)
    if 1 in brokers:
        states = partition_states(store, topics)
        stored = StoredRoles(
            controller_id=controller_id,
            controller_epoch=controller_epoch,
            listener=LISTENER,
            brokers=brokers,
            topics=topics,
            states=states,
        )
        resume(hosting, 1, stored)
    ProducerIdControlManager(store, 1).block_response(ErrorCode.NONE)
    ask(hosting)


def ask(hosting: Hosting) -> None:
    """What clients ask first."""
    view: BrokerView = a_view()
    view.image = hosting.image
    for version in (1, 12):
        finished(metadata.response(MetadataRequest(None, False, False, False), a_context(version), view))


def replaced(value: Any, at: tuple[Any, ...], by: Any) -> Any:
    if not at:
        return by
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[at[0]] = replaced(value[at[0]], at[1:], by)
    return copy


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    if isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(each, (*at, key))


def strange(data: bytes) -> Iterator[bytes]:
    yield from TEXTS
    if data[:1] == b"{":
        original = json.loads(data)
        for at in places(original):
            for value in VALUES:
                yield json.dumps(replaced(original, at, value)).encode()
        for name in ("x", "9" * 5_000):
            yield json.dumps({**original, name: 1}).encode()


def paths(store: EmbeddedStore, path: str = "") -> Iterator[str]:
    for name in store.children(path or "/"):
        yield f"{path}/{name}"
        yield from paths(store, f"{path}/{name}")


ALIKE = ("fine", "ids/1", "ids/3", "partitions/1", "/change_1")


def written() -> dict[str, bytes]:
    with closing(made()) as store:
        return {path: store.get(path).data for path in paths(store) if not any(each in path for each in ALIKE)}


NODES = written()


@pytest.mark.parametrize("path", [path for path, data in NODES.items() if data])
def test_nobody_ends_by_what_a_node_says(path: str) -> None:
    for data in strange(NODES[path]):
        with closing(made()) as store, suppress(UnusableMetadata, UnreadableEpoch):
            store.set_data(path, data)
            start(store)
            live_through(store)


@pytest.mark.parametrize("path", ["", *NODES])
def test_nobody_ends_by_a_node_that_is_not_expected(path: str) -> None:
    with closing(made()) as store:
        if store.get(path or "/").stat.ephemeral_owner:
            return
        for name in ("a b", "ü", "x" * 300, "0", "9" * 5_000):
            if store.exists(f"{path}/{name}") is None:
                store.create(f"{path}/{name}", b"x")
        start(store)
        live_through(store)
        start(store)


@pytest.mark.parametrize("path", NODES)
def test_nobody_ends_by_a_node_that_is_gone(path: str) -> None:
    with closing(made()) as store:
        for each in reversed([path, *paths(store, path)]):
            store.delete(each)
        try:
            start(store)
            live_through(store)
            start(store)
        except NoNode:
            """The term is over, and the next one makes the paths again."""
            assert path in (*nodes.PERSISTENT_PATHS, nodes.PRODUCER_ID_BLOCK)
