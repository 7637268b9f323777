"""What strangers write into the tree: that topic or partition alone is left out, and the controller goes on."""

from pathlib import Path
from uuid import UUID

import pytest

from kafkad.adapters.stores.embedded_store import EmbeddedStore
from kafkad.core.cluster.control_requests import LeaderAndIsrRequest, UpdateMetadataRequest
from kafkad.core.controller.admin import create_topics
from kafkad.core.controller.controller import PlannedTopic
from kafkad.core.controller.elected.announcements import Announcer
from kafkad.core.controller.elected.controller_failover import controller_failover
from kafkad.core.controller.elected.elected import ElectedController
from kafkad.core.controller.elected.node_orders import take_log_dir_events
from kafkad.core.controller.image import NO_LEADER, Broker, Listener
from kafkad.core.controller.settings import ControllerSettings, RandomSource
from kafkad.core.controller.startup.term import UnreadableEpoch, claim, ensure_paths
from kafkad.core.controller.store import nodes
from kafkad.core.controller.store.tree import MetadataTree
from kafkad.core.controller.store.unreadable_nodes import UnreadableNodes
from kafkad.core.controller.topics.topics import NewTopic, TopicDefaults
from kafkad.core.errors import ErrorCode
from kafkad.plugins.leader_election import PreferredReplica
from tests.core.controller.world import World

FINE_ID, ODD_ID = UUID(int=7), UUID(int=8)
ODD_TOPICS = {
    "no JSON": b"no JSON",
    "nothing": b"",
    "another shape": b'{"partitions":[1,2]}',
    "a partition that is missing": b'{"partitions":{"0":[1,2],"2":[1,2]}}',
    "a partition far away": b'{"partitions":{"2000000000":[1,2]}}',
    "a broker that no request can name": b'{"partitions":{"0":[4294967296]}}',
    "a negative broker": b'{"partitions":{"0":[-1,2]}}',
    "an id that is none": b'{"partitions":{"0":[1,2]},"topic_id":"?"}',
    "another topic's id": b'{"partitions":{"0":[1,2]},"topic_id":"%s"}' % nodes.encode_id(FINE_ID).encode(),
    "too deep": b"[" * 100_000,
}
ODD_STATES = {
    "no JSON": b"no JSON",
    "nothing": b"",
    "another shape": b'{"leader":1}',
    "an epoch that no request can carry": b'{"controller_epoch":1,"leader":1,"leader_epoch":4294967296,"isr":[1]}',
    "an odd leader": b'{"controller_epoch":1,"leader":-7,"leader_epoch":0,"isr":[1]}',
    "nobody in sync": b'{"controller_epoch":1,"leader":1,"leader_epoch":0,"isr":[]}',
}


def brokers(*ids: int) -> dict[int, Broker]:
    listener = Listener(name="PLAINTEXT", host="b", port=9092, security_protocol="PLAINTEXT")
    return {each: Broker(id=each, epoch=each, listeners=(listener,), rack=None) for each in ids}


@pytest.fixture
def store() -> EmbeddedStore:
    """Has two topics with two partitions each."""
    made = EmbeddedStore(Path(":memory:"), 7)
    ensure_paths(made)
    controller, _ = elected(made)
    assignments = ((1, 2), (2, 1))
    plans = [("fine", FINE_ID), ("odd", ODD_ID)]
    controller.create_topics(
        [PlannedTopic(name=name, id=at, assignments=assignments, configs={}) for name, at in plans]
    )
    return made


def elected(
    store: EmbeddedStore, *live: int, delete_topic_enable: bool = True
) -> tuple[ElectedController, UnreadableNodes]:
    term, left_out = claim(store, 1, 1_000), UnreadableNodes()
    announcer = Announcer(
        controller_id=1, controller_epoch=term.epoch, listener="PLAINTEXT", brokers=brokers(*(live or (1, 2)))
    )
    settings = ControllerSettings(
        defaults=TopicDefaults(partitions=1, replication_factor=1),
        delete_topic_enable=delete_topic_enable,
    )
    controller = controller_failover(
        store,
        MetadataTree(store, term),
        settings=settings,
        election=PreferredReplica(),
        announcer=announcer,
        cluster_id="c",
        new_topic_id=lambda: UUID(int=9),
        left_out=left_out,
    )
    return controller, left_out


def leaders(controller: ElectedController, name: str) -> list[int]:
    return [row.leader for row in controller.image.topics[name].partitions]


@pytest.mark.parametrize("data", ODD_TOPICS.values(), ids=ODD_TOPICS.keys())
def test_an_odd_topic_is_left_out_alone(store: EmbeddedStore, data: bytes) -> None:
    store.set_data(nodes.topic_path("odd"), data)
    controller, left_out = elected(store, 2)
    assert set(controller.image.topics) == {"fine"}
    assert leaders(controller, "fine") == [2, 2]
    assert set(left_out.reasons) == {nodes.topic_path("odd")}
    assert controller.unreadable_topics == {"odd"}
    assert store.get(nodes.topic_path("odd")).data == data


def test_a_name_that_no_topic_has_is_left_out(store: EmbeddedStore) -> None:
    store.create(nodes.topic_path("a b"), store.get(nodes.topic_path("odd")).data)
    controller, left_out = elected(store)
    assert set(controller.image.topics) == {"fine", "odd"}
    assert set(left_out.reasons) == {nodes.topic_path("a b")}


def test_no_topic_is_made_where_one_can_not_be_read(store: EmbeddedStore) -> None:
    store.set_data(nodes.topic_path("odd"), b"no JSON")
    controller, _ = elected(store)
    random_source = RandomSource(lambda limit: 0, lambda: UUID(int=10))
    wanted = [NewTopic(name="odd", partitions=1), NewTopic(name="new", partitions=1)]
    results = create_topics(controller, wanted, World().rules, random_source)
    assert [result.code for result in results] == [ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.NONE]
    assert set(controller.image.topics) == {"fine", "new"}


def test_the_deletion_of_an_odd_topic_waits_until_it_can_be_read(store: EmbeddedStore) -> None:
    data = store.get(nodes.topic_path("odd")).data
    store.set_data(nodes.topic_path("odd"), b"no JSON")
    store.create(nodes.deletion_path("odd"))
    controller, left_out = elected(store)
    assert set(left_out.reasons) == {nodes.topic_path("odd"), nodes.deletion_path("odd")}
    assert not controller.deletions
    store.set_data(nodes.topic_path("odd"), data)
    controller, _ = elected(store)
    for broker in (1, 2):
        controller.replicas_deleted(["odd"], broker)
    assert store.exists(nodes.topic_path("odd")) is None


def test_a_deletion_that_says_odd_things_is_done(store: EmbeddedStore) -> None:
    store.create(nodes.deletion_path("odd"), b"no JSON")
    controller, _ = elected(store)
    assert set(controller.deletions) == {"odd"}


@pytest.mark.parametrize("data", [b"", b"no JSON"])
def test_the_order_of_a_deletion_is_refused_where_none_may_be_deleted(store: EmbeddedStore, data: bytes) -> None:
    store.create(nodes.deletion_path("odd"), data)
    controller, left_out = elected(store, delete_topic_enable=False)
    assert left_out.reasons == {nodes.deletion_path("odd"): "delete.topic.enable is false"}
    assert (set(controller.image.topics), leaders(controller, "odd")) == ({"fine", "odd"}, [1, 2])
    assert store.exists(nodes.deletion_path("odd")) is None


def test_a_deletion_that_was_begun_goes_on_where_none_may_be_deleted_any_more(store: EmbeddedStore) -> None:
    controller, _ = elected(store)
    controller.delete_topics(["odd"])
    controller, left_out = elected(store, delete_topic_enable=False)
    assert (set(controller.deletions), left_out.reasons) == ({"odd"}, {})


@pytest.mark.parametrize("data", ODD_STATES.values(), ids=ODD_STATES.keys())
def test_a_partition_with_an_odd_state_is_left_out_alone(store: EmbeddedStore, data: bytes) -> None:
    path = nodes.state_path("odd", 0)
    version = store.set_data(path, data).version
    controller, left_out = elected(store)
    assert leaders(controller, "odd") == [NO_LEADER, 2]
    assert set(left_out.reasons) == {path}
    requests = [request for _, request in controller.take_requests()]
    told = [request for request in requests if isinstance(request, LeaderAndIsrRequest)]
    roles = {
        (topic.topic_name, state.partition_index)
        for each in told
        for topic in each.topic_states
        for state in topic.partition_states
    }
    assert roles == {("fine", 0), ("fine", 1), ("odd", 1)}
    metadata = [request for request in requests if isinstance(request, UpdateMetadataRequest)][-1]
    known = {
        (topic.topic_name, state.partition_index): state.leader
        for topic in metadata.topic_states
        for state in topic.partition_states
    }
    assert known == {("fine", 0): 1, ("fine", 1): 2, ("odd", 0): NO_LEADER, ("odd", 1): 2}
    controller.brokers_changed(brokers(2))
    controller.brokers_changed(brokers(1, 2))
    assert (leaders(controller, "fine"), leaders(controller, "odd")) == ([2, 2], [NO_LEADER, 2])
    assert store.get(path).version == version
    controller.delete_topics(["odd"])
    for broker in (1, 2):
        controller.replicas_deleted(["odd"], broker)
    assert store.exists(nodes.topic_path("odd")) is None


def test_a_partition_without_replicas_is_left_out_alone(store: EmbeddedStore) -> None:
    store.set_data(nodes.topic_path("odd"), b'{"partitions":{"0":[],"1":[1,2]}}')
    controller, left_out = elected(store)
    assert leaders(controller, "odd") == [NO_LEADER, 2]
    assert set(left_out.reasons) == {nodes.state_path("odd", 0)}


@pytest.mark.parametrize("data", [b"no JSON", b"{}", b'{"config":{"retention.ms":5}}'])
def test_odd_configurations_are_left_out_alone(store: EmbeddedStore, data: bytes) -> None:
    store.set_data(nodes.topic_config_path("odd"), data)
    store.create(nodes.broker_config_path("1"), data)
    controller, left_out = elected(store)
    assert controller.image.topics["odd"].configs == {}
    assert leaders(controller, "odd") == [1, 2]
    assert set(left_out.reasons) == {nodes.topic_config_path("odd"), nodes.broker_config_path("1")}


@pytest.mark.parametrize("data", [b"", b"x", b"-1", b"4294967296", "\u00b2".encode()])
def test_an_odd_controller_epoch_is_nobodys(store: EmbeddedStore, data: bytes) -> None:
    store.set_data(nodes.CONTROLLER_EPOCH, data)
    with pytest.raises(UnreadableEpoch):
        claim(store, 1, 1_000)


def test_the_store_of_a_single_broker_has_no_strangers(store: EmbeddedStore) -> None:
    store.set_data(nodes.topic_path("odd"), b'{"partitions":{"1":[1,2]}}')
    with pytest.raises(ValueError, match="numbered"):
        MetadataTree(store, claim(store, 1, 1_000)).load()


def test_numbers_of_partitions_that_are_none_are_passed_over(store: EmbeddedStore) -> None:
    """One of five thousand digits ended the controller process of every broker in turn."""
    added = b'"adding_replicas":{"%s":[3],"-1":[3],"7":[3]}' % (b"9" * 5_000)
    store.set_data(nodes.topic_path("odd"), b'{"partitions":{"0":[1,2],"1":[2,1]},%s}' % added)
    controller, left_out = elected(store)
    assert (leaders(controller, "odd"), left_out.reasons) == ([1, 2], {})


def test_an_epoch_of_thousands_of_digits_is_nobodys(store: EmbeddedStore) -> None:
    store.set_data(nodes.CONTROLLER_EPOCH, b"1" * 5_000)
    with pytest.raises(UnreadableEpoch):
        claim(store, 1, 1_000)


def test_the_state_of_a_partition_is_left_alone_where_its_epochs_end(store: EmbeddedStore) -> None:
    data = b'{"controller_epoch":1,"leader":1,"leader_epoch":2147483647,"isr":[1,2]}'
    store.set_data(nodes.state_path("odd", 0), data)
    controller, left_out = elected(store, 2)
    assert set(left_out.reasons) == {nodes.state_path("odd", 0)}
    assert leaders(controller, "fine") == [2, 2]


def test_a_deletion_removes_what_strangers_have_made_below_the_topic(store: EmbeddedStore) -> None:
    """Its nodes were not empty, so that the term ended, and so did each one after it."""
    odd = nodes.topic_path("odd")
    for path in (f"{odd}/partitions/9", f"{odd}/partitions/9/state", f"{odd}/partitions/0/state/x", f"{odd}/note"):
        store.create(path)
    controller, _ = elected(store)
    controller.delete_topics(["odd"])
    for broker in (1, 2):
        controller.replicas_deleted(["odd"], broker)
    assert store.exists(odd) is None
    assert store.exists(nodes.deletion_path("odd")) is None
    assert leaders(controller, "fine") == [1, 2]


def test_notifications_are_removed_with_what_is_below_them(store: EmbeddedStore) -> None:
    tree = MetadataTree(store, claim(store, 1, 1_000))
    store.create(f"{nodes.LOG_DIR_EVENTS}/a", b'{"version":1,"broker":3,"event":1}')
    store.create(f"{nodes.LOG_DIR_EVENTS}/a/b")
    assert take_log_dir_events(tree) == {3}
    assert store.children(nodes.LOG_DIR_EVENTS) == []
