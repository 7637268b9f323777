"""Nodes that old tools write: carried out by the controller, and removed when that is done."""

import json
from collections.abc import KeysView
from dataclasses import replace
from uuid import UUID

import pytest

from kafkad.core.controller.controller import PlannedTopic
from kafkad.core.controller.elected.node_orders import NodeOrders, TopicNodes
from kafkad.core.controller.image import Topic
from kafkad.core.controller.store import nodes
from kafkad.core.controller.topics.assignment import Assignment
from kafkad.core.coordination_store import BadVersion, WatchFired, WatchKind
from kafkad.core.types import TopicPartition
from tests.core.controller.elected.test_elected import ID, World, brokers


class Ordered:
    """A world with four brokers, and what its tools have written."""

    def __init__(self) -> None:
        self.world = World(1, 2, 3, 4)
        self.world.create((1, 2), (2, 1), (3, 1))
        self.said: dict[str, str] = {}
        self.new_term()

    def new_term(self) -> None:
        self.orders = NodeOrders(self.world.controller, self.world.store, self.world.term, self.said.update)

    def reassign(self, targets: dict[int, Assignment]) -> None:
        rows = [{"topic": "t", "partition": index, "replicas": list(to)} for index, to in targets.items()]
        self.world.store.create(nodes.REASSIGNMENT, json.dumps({"version": 1, "partitions": rows}).encode())
        self.orders.carry_out()

    def left(self) -> dict[int, list[int]] | None:
        """What the tool finds there; None: no node."""
        (node,) = self.world.store.get_many([nodes.REASSIGNMENT])
        if node is None:
            return None
        rows = json.loads(node.data)
        assert rows["version"] == 1
        return {row["partition"]: row["replicas"] for row in rows["partitions"]}

    def replicas(self) -> list[tuple[int, ...]]:
        return [row.replicas for row in self.world.controller.image.topics["t"].partitions]


@pytest.fixture
def ordered() -> Ordered:
    return Ordered()


def test_a_reassignment_leaves_its_node_partition_by_partition(ordered: Ordered) -> None:
    ordered.reassign({0: (3, 2), 1: (1, 2), 9: (1, 2)})
    assert ordered.replicas() == [(3, 2, 1), (1, 2), (3, 1)]
    assert ordered.left() == {0: [3, 2]}, "what is done, or can't be, is not there any more"
    assert "t-9: Unable to find partition" in ordered.said[nodes.REASSIGNMENT]
    ordered.orders.drop()
    assert ordered.left() == {0: [3, 2]}
    ordered.world.alter((1, 2, 3))
    ordered.orders.drop()
    assert (ordered.replicas()[0], ordered.left()) == ((3, 2), None)


def test_a_request_that_says_otherwise_wins(ordered: Ordered) -> None:
    ordered.reassign({0: (3, 2), 2: (3, 4)})
    ordered.world.controller.reassign([(TopicPartition("t", 0), (4, 2))])
    ordered.orders.drop()
    assert ordered.left() == {2: [3, 4]}
    ordered.world.controller.reassign([(TopicPartition("t", 2), None)])
    ordered.orders.drop()
    assert ordered.left() is None


def test_the_next_controller_goes_on_with_the_node(ordered: Ordered) -> None:
    ordered.reassign({0: (3, 2)})
    ordered.world.fail_over(brokers(1, 2, 3, 4))
    ordered.new_term()
    ordered.orders.carry_out()
    assert ordered.left() == {0: [3, 2]}
    ordered.world.alter((1, 2, 3))
    ordered.orders.drop()
    assert ordered.left() is None


def test_preferred_replicas_lead_again_and_the_node_goes(ordered: Ordered) -> None:
    ordered.world.controller.brokers_changed(brokers(1, 3, 4))
    ordered.world.controller.brokers_changed(brokers(1, 2, 3, 4))
    assert (ordered.world.row(1).leader, ordered.world.row(1).isr) == (1, (1,))
    ordered.world.alter((1, 2), index=1)
    elections = [{"topic": "t", "partition": index} for index in (1, 0, 7)]
    data = json.dumps({"version": 1, "partitions": elections}).encode()
    ordered.world.store.create(nodes.PREFERRED_ELECTION, data)
    ordered.orders.carry_out()
    assert ordered.world.row(1).leader == 2
    assert ordered.world.store.exists(nodes.PREFERRED_ELECTION) is None


@pytest.mark.parametrize("data", [b"not JSON", b'{"x":' + b"[" * 100_000], ids=["no JSON", "too deep"])
def test_nodes_that_cannot_be_read_are_said_and_do_no_harm(ordered: Ordered, data: bytes) -> None:
    for path in (nodes.REASSIGNMENT, nodes.PREFERRED_ELECTION):
        ordered.world.store.create(path, data)
    ordered.orders.carry_out()
    assert set(ordered.said) == {nodes.REASSIGNMENT, nodes.PREFERRED_ELECTION}
    assert ordered.world.store.exists(nodes.REASSIGNMENT) is not None
    assert ordered.world.store.exists(nodes.PREFERRED_ELECTION) is None


def test_orders_below_which_strangers_have_made_nodes_are_carried_out_and_stay(ordered: Ordered) -> None:
    election = {"version": 1, "partitions": [{"topic": "t", "partition": 1}]}
    for path, order in ((nodes.PREFERRED_ELECTION, election), (nodes.REASSIGNMENT, {"version": 1, "partitions": []})):
        ordered.world.store.create(path, json.dumps(order).encode())
        ordered.world.store.create(f"{path}/note")
    for _ in range(2):
        ordered.orders.carry_out()
    assert ordered.world.store.exists(nodes.PREFERRED_ELECTION) is not None


def test_a_controller_whose_term_is_over_changes_no_node(ordered: Ordered) -> None:
    stale = ordered.orders
    ordered.world.fail_over(brokers(1, 2, 3, 4))
    ordered.world.store.create(nodes.PREFERRED_ELECTION, b'{"version":1,"partitions":[]}')
    with pytest.raises(BadVersion):
        stale.carry_out()
    assert ordered.world.store.exists(nodes.PREFERRED_ELECTION) is not None


TOPIC = nodes.topic_path("t")
OTHER = UUID(int=8)


def write_topic(ordered: Ordered, *assignments: Assignment) -> None:
    """As kafka-topics.sh --zookeeper --alter --partitions."""
    partitions = {str(index): list(replicas) for index, replicas in enumerate(assignments)}
    node = {"version": 2, "partitions": partitions, "topic_id": nodes.encode_id(ID)}
    ordered.world.store.set_data(TOPIC, json.dumps(node).encode())


def new_term(ordered: Ordered) -> None:
    ordered.world.store.events()
    ordered.world.fail_over(brokers(1, 2, 3, 4))
    ordered.new_term()


def test_partitions_that_a_tool_adds_are_noticed_and_made_in_the_next_term(ordered: Ordered) -> None:
    new_term(ordered)
    write_topic(ordered, (1, 2), (2, 1), (3, 1), (4, 3))
    assert WatchFired(WatchKind.CHANGED, TOPIC) in ordered.world.store.events()
    assert ordered.orders.topics.have_grown(TOPIC)
    new_term(ordered)
    assert (ordered.world.row(3).leader, ordered.world.stored(3).isr) == (4, (4, 3))
    assert not ordered.orders.topics.have_grown(nodes.TOPICS)


def test_topics_made_in_the_term_are_watched_when_their_names_are_new(ordered: Ordered) -> None:
    ordered.world.store.events()
    ordered.orders.topics = TopicNodes(ordered.world.controller, ordered.world.store)
    ordered.world.controller.create_topics([PlannedTopic(name="u", id=OTHER, assignments=((1, 2),), configs={})])
    assert not ordered.orders.topics.have_grown(nodes.TOPICS)
    ordered.world.store.set_data(nodes.topic_path("u"), b'{"partitions":{"0":[1,2],"1":[2,1]}}')
    assert ordered.world.store.events() == [WatchFired(WatchKind.CHANGED, nodes.topic_path("u"))]
    assert ordered.orders.topics.have_grown(nodes.topic_path("u"))


def test_what_the_controller_itself_adds_or_nobody_can_read_begins_no_term(ordered: Ordered) -> None:
    new_term(ordered)
    ordered.world.controller.add_partitions({"t": [(4, 1)]})
    assert WatchFired(WatchKind.CHANGED, TOPIC) in ordered.world.store.events()
    assert not ordered.orders.topics.have_grown(TOPIC)
    for data in (b"no JSON", b"", b'{"partitions":{"0":[1],"7":[1],"8":[1],"9":[1],"10":[1]}}'):
        ordered.world.store.set_data(TOPIC, data)
        assert ordered.world.store.events() == [WatchFired(WatchKind.CHANGED, TOPIC)], "it is watched on"
        assert not ordered.orders.topics.have_grown(TOPIC)


def test_a_topic_that_could_not_be_read_is_back_when_its_node_is_mended(ordered: Ordered) -> None:
    data = ordered.world.store.get(TOPIC).data
    ordered.world.store.set_data(TOPIC, b"no JSON")
    new_term(ordered)
    assert "t" not in ordered.world.controller.image.topics
    assert not ordered.orders.topics.have_grown(nodes.TOPICS)
    ordered.world.store.set_data(TOPIC, data)
    assert ordered.world.store.events() == [WatchFired(WatchKind.CHANGED, TOPIC)]
    assert ordered.orders.topics.have_grown(TOPIC)
    new_term(ordered)
    assert len(ordered.world.controller.image.topics["t"].partitions) == 3


class NeverListed(dict[str, Topic]):
    """Of ten thousand topics."""

    def keys(self) -> "KeysView[str]":  # type: ignore[override]
        raise AssertionError("all topics are looked at")


def test_of_a_topic_that_changed_only_itself_is_looked_at(ordered: Ordered) -> None:
    """Each of thousands that are deleted at once has an event of its own."""
    new_term(ordered)
    controller = ordered.world.controller
    image = controller.image
    controller.image = replace(image, topics=NeverListed(image.topics))
    assert not ordered.orders.topics.have_grown(TOPIC)
    assert not ordered.orders.topics.have_grown(nodes.topic_path("deleted"))
    write_topic(ordered, (1, 2), (2, 1), (3, 1), (4, 3))
    assert WatchFired(WatchKind.CHANGED, TOPIC) in ordered.world.store.events()
    assert ordered.orders.topics.have_grown(TOPIC)
