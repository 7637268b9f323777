"""The elected controller: who leads when brokers come and go, what leaders may ask for, and who is told what."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from uuid import UUID

import pytest
from msgspec import structs

from kafkad.adapters.stores.embedded_store import EmbeddedStore
from kafkad.core.cluster.control_requests import (
    LEADER_DURING_DELETE,
    AlterPartitionPartition,
    AlterPartitionRequest,
    AlterPartitionTopic,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    IsrMember,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from kafkad.core.controller.admin import auto_create_topics
from kafkad.core.controller.controller import PlannedTopic
from kafkad.core.controller.elected.announcements import Announcer, Request
from kafkad.core.controller.elected.controller_failover import controller_failover
from kafkad.core.controller.elected.elected import ElectedController
from kafkad.core.controller.elected.node_orders import stored_states, take_isr_changes
from kafkad.core.controller.image import NO_LEADER, Broker, Listener, Partition
from kafkad.core.controller.settings import ControllerSettings, RandomSource
from kafkad.core.controller.startup.term import Term, claim, ensure_paths
from kafkad.core.controller.store import nodes
from kafkad.core.controller.store.tree import MetadataTree
from kafkad.core.controller.topics.topics import NewTopic, TopicDefaults
from kafkad.core.coordination_store import BadVersion
from kafkad.core.errors import ErrorCode
from kafkad.core.types import NO_BROKER_EPOCH, RECOVERED
from kafkad.plugins.leader_election import PreferredReplica
from tests.core.controller.world import World as SingleBroker

ID = UUID(int=7)


def a_broker(broker_id: int, epoch: int = 0) -> Broker:
    listener = Listener(name="PLAINTEXT", host=f"b{broker_id}", port=9092, security_protocol="PLAINTEXT")
    return Broker(id=broker_id, epoch=epoch or 100 + broker_id, listeners=(listener,), rack=None)


def brokers(*ids: int) -> dict[int, Broker]:
    return {each: a_broker(each) for each in ids}


def age_to(store: EmbeddedStore, change: int = 110) -> None:
    """All that is written from now on is written later than this, as after the registrations of these brokers."""
    while store.set_data("/cluster", b"").modified_id < change:
        pass


class World:
    """A store, and the controller of the present term."""

    def __init__(self, *ids: int) -> None:
        self.store = EmbeddedStore(Path(":memory:"), 7)
        ensure_paths(self.store)
        age_to(self.store)
        self.fail_over(brokers(*ids))

    def fail_over(self, live: dict[int, Broker], *, names_broker_epochs: bool = True) -> None:
        self.term: Term = claim(self.store, 1, 1_000)
        self.tree = MetadataTree(self.store, self.term)
        self.controller: ElectedController = controller_failover(
            self.store,
            self.tree,
            settings=ControllerSettings(
                defaults=TopicDefaults(partitions=1, replication_factor=1),
                names_broker_epochs=names_broker_epochs,
            ),
            election=PreferredReplica(),
            announcer=Announcer(controller_id=1, controller_epoch=self.term.epoch, listener="PLAINTEXT", brokers=live),
            cluster_id="c",
            new_topic_id=lambda: ID,
        )

    def create(self, *assignments: tuple[int, ...]) -> None:
        self.controller.create_topics([PlannedTopic(name="t", id=ID, assignments=assignments, configs={})])

    def row(self, index: int = 0) -> Partition:
        return self.controller.image.topics["t"].partitions[index]

    def stored(self, index: int = 0) -> nodes.StateNode:
        return nodes.decode_state(self.store.get(nodes.state_path("t", index)).data)

    def sent(self) -> list[tuple[int, Request]]:
        return self.controller.take_requests()

    def alter(self, isr: tuple[int, ...], lives: Mapping[int, int] = MappingProxyType({}), **changed: int) -> ErrorCode:
        index = changed.get("index", 0)
        row = self.row(index)
        wanted = AlterPartitionPartition(
            partition_index=index,
            leader_epoch=changed.get("leader_epoch", row.leader_epoch),
            new_isr_with_epochs=tuple(
                IsrMember(broker_id=each, broker_epoch=lives.get(each, NO_BROKER_EPOCH)) for each in isr
            ),
            partition_epoch=changed.get("partition_epoch", row.partition_epoch),
            leader_recovery_state=changed.get("leader_recovery_state", RECOVERED),
        )
        sender = changed.get("sender", row.leader)
        request = AlterPartitionRequest(
            broker_id=sender,
            broker_epoch=changed.get("broker_epoch", 100 + sender),
            topics=(AlterPartitionTopic(topic_id=ID, partitions=(wanted,)),),
        )
        response = self.controller.alter_partitions(request)
        return response.topics[0].partitions[0].error_code if response.topics else response.error_code


@pytest.fixture
def world() -> World:
    made = World(1, 2, 3)
    made.sent()
    return made


def kinds(sent: list[tuple[int, Request]]) -> list[tuple[int, str]]:
    return [(broker, type(request).__name__.removesuffix("Request")) for broker, request in sent]


def test_a_new_topic_is_told_to_its_replicas_and_then_to_all(world: World) -> None:
    world.create((1, 2), (2, 3))
    sent = world.sent()
    assert kinds(sent) == [
        *((broker, "LeaderAndIsr") for broker in (1, 2, 3)),
        *((broker, "UpdateMetadata") for broker in (1, 2, 3)),
    ]
    (_, first), *_ = sent
    assert isinstance(first, LeaderAndIsrRequest)
    (state,) = first.topic_states[0].partition_states
    assert (state.leader, state.isr, state.is_new, first.broker_epoch) == (1, (1, 2), True, 101)
    assert [(each.broker_id, each.host_name) for each in first.live_leaders] == [(1, "b1")]


def test_a_broker_that_goes_leaves_leadership_and_every_isr(world: World) -> None:
    world.create((1, 2, 3), (2, 1, 3))
    world.sent()
    world.controller.brokers_changed(brokers(2, 3))
    assert (world.row(0).leader, world.row(0).isr, world.row(0).leader_epoch) == (2, (2, 3), 1)
    assert (world.row(1).leader, world.row(1).isr, world.row(1).leader_epoch) == (2, (2, 3), 1)
    assert (world.stored(0).leader, world.stored(0).isr) == (2, (2, 3))
    assert world.row(0).partition_epoch == world.store.get(nodes.state_path("t", 0)).version
    assert {broker for broker, _ in world.sent()} == {2, 3}


def test_a_broker_whose_host_refuses_connections_leads_nothing_and_stays_in_metadata(world: World) -> None:
    world.create((1, 2, 3))
    world.sent()
    world.controller.brokers_changed(brokers(1, 2, 3), frozenset({1}))
    assert (world.row().leader, world.row().isr) == (2, (2, 3))
    updates = [each for _, each in world.sent() if isinstance(each, UpdateMetadataRequest)]
    assert {tuple(broker.id for broker in each.live_brokers) for each in updates} == {(1, 2, 3)}
    (state,) = next(each for each in updates if each.topic_states).topic_states[0].partition_states
    assert (state.leader, state.isr, state.offline_replicas) == (2, (2, 3), ())


def test_a_broker_whose_host_refuses_connections_leaves_metadata_when_its_session_ends(world: World) -> None:
    world.create((1, 2, 3))
    world.controller.brokers_changed(brokers(1, 2, 3), frozenset({1}))
    world.sent()
    world.controller.brokers_changed(brokers(2, 3))
    updates = [(broker, each) for broker, each in world.sent() if isinstance(each, UpdateMetadataRequest)]
    assert {broker for broker, _ in updates} == {2, 3}
    assert {tuple(broker.id for broker in each.live_brokers) for _, each in updates} == {(2, 3)}
    world.controller.brokers_changed(brokers(2, 3))
    assert world.sent() == []


def test_a_broker_with_another_address_is_named_to_all_and_nobody_is_elected(world: World) -> None:
    """It is told all: what waited for the address that was wrong goes with that connection."""
    world.create((1, 2, 3))
    world.sent()
    moved = a_broker(2)
    moved = structs.replace(moved, listeners=(structs.replace(moved.listeners[0], host="elsewhere"),))
    world.controller.brokers_changed({**brokers(1, 2, 3), 2: moved})
    sent = world.sent()
    to_all = [(broker, "UpdateMetadata") for broker in (1, 2, 3)]
    assert kinds(sent) == [*to_all, (2, "UpdateMetadata"), (2, "LeaderAndIsr"), (2, "UpdateMetadata")]
    for _, request in sent[:3]:
        assert isinstance(request, UpdateMetadataRequest)
        assert [broker.endpoints[0].host for broker in request.live_brokers] == ["b1", "elsewhere", "b3"]
    assert (world.row().leader, world.row().leader_epoch) == (1, 0)
    world.controller.brokers_changed({**brokers(1, 2, 3), 2: moved})
    assert world.sent() == []


def test_the_last_in_sync_replica_is_waited_for(world: World) -> None:
    world.create(
        (1, 2),
    )
    world.alter((1,))
    world.controller.brokers_changed(brokers(2, 3))
    assert (world.row().leader, world.row().isr) == (NO_LEADER, (1,))
    world.controller.brokers_changed(brokers(1, 2, 3))
    assert (world.row().leader, world.row().isr, world.row().leader_epoch) == (1, (1,), 2)


def test_a_broker_that_comes_is_told_everything_live_brokers_first(world: World) -> None:
    world.create(
        (1, 2),
    )
    world.controller.brokers_changed(brokers(1, 3))
    world.sent()
    world.controller.brokers_changed(brokers(1, 2, 3))
    sent = world.sent()
    assert [kind for broker, kind in kinds(sent) if broker == 2] == ["UpdateMetadata", "LeaderAndIsr", "UpdateMetadata"]
    first = next(request for broker, request in sent if broker == 2)
    assert isinstance(first, UpdateMetadataRequest)
    assert [each.id for each in first.live_brokers] == [1, 2, 3]


def test_a_broker_with_a_new_epoch_has_been_away(world: World) -> None:
    world.create(
        (1, 2),
    )
    world.sent()
    bounced = {**brokers(2, 3), 1: a_broker(1, epoch=500)}
    world.controller.brokers_changed(bounced)
    assert (world.row().leader, world.row().isr) == (2, (2,))
    epochs = {request.broker_epoch for broker, request in world.sent() if broker == 1}
    assert epochs == {500}


def test_who_has_another_life_than_when_a_state_was_written_is_not_in_sync_in_the_next_term(world: World) -> None:
    """A controller that loses its power and is elected again has not seen itself go, and may have lost records."""
    world.create((1, 2, 3), (2, 1, 3), (1,))
    world.fail_over({**brokers(2, 3), 1: a_broker(1, epoch=500)})
    assert [(row.leader, row.isr, row.leader_epoch) for row in map(world.row, range(3))] == [
        (2, (2, 3), 1),
        (2, (2, 3), 1),
        (1, (1,), 1),
    ]
    age_to(world.store, 500)
    assert world.alter((2, 3, 1)) is ErrorCode.NONE
    world.fail_over({**brokers(2, 3), 1: a_broker(1, epoch=500)})
    assert (world.row().leader, world.row().isr, world.row().leader_epoch) == (2, (2, 3, 1), 1)


def test_leaders_shrink_and_expand_their_isr(world: World) -> None:
    world.create(
        (1, 2, 3),
    )
    world.sent()
    assert world.alter((1, 2)) is ErrorCode.NONE
    assert (world.row().isr, world.row().leader_epoch, world.row().partition_epoch) == ((1, 2), 0, 1)
    assert set(kinds(world.sent())) == {(broker, "UpdateMetadata") for broker in (1, 2, 3)}
    assert world.alter((1, 2, 3)) is ErrorCode.NONE
    assert (world.stored().isr, world.stored().leader_epoch) == ((1, 2, 3), 0)


def test_what_a_leader_has_written_itself_is_told_to_all_and_its_notification_removed(world: World) -> None:
    world.create((1, 2, 3), (2, 3))
    world.sent()
    for name, data in (
        ("isr_change_0", b'{"version":1,"partitions":[{"topic":"t","partition":0},{"topic":"t","partition":9}]}'),
        ("isr_change_1", b"no JSON"),
        ("isr_change_2", b'{"version":1,"partitions":[{"topic":"t","partition":1},{"topic":"no","partition":0}]}'),
        ("isr_change_3", b'{"version":1,"partitions":[{"topic":"../config","partition":0}]}'),
    ):
        world.store.create(f"{nodes.ISR_CHANGES}/{name}", data)
    shrunk = nodes.encode(nodes.StateNode(controller_epoch=1, leader=1, leader_epoch=0, isr=(1, 3)))
    world.store.set_data(nodes.state_path("t", 0), shrunk)
    world.controller.isr_changed(stored_states(world.store, take_isr_changes(world.tree)))
    assert world.store.children(nodes.ISR_CHANGES) == []
    assert (world.row().isr, world.row().partition_epoch, world.row(1).isr) == ((1, 3), 1, (2, 3))
    told = [(broker, request) for broker, request in world.sent() if isinstance(request, UpdateMetadataRequest)]
    assert [broker for broker, _ in told] == [1, 2, 3]
    assert [each.isr for _, request in told for topic in request.topic_states for each in topic.partition_states] == [
        (1, 3)
    ] * 3
    assert world.alter((1, 2, 3)) is ErrorCode.NONE
    strange = nodes.encode(nodes.StateNode(controller_epoch=1, leader=7, leader_epoch=0, isr=(7,)))
    world.store.set_data(nodes.state_path("t", 1), strange)
    world.store.create(f"{nodes.ISR_CHANGES}/isr_change_4", b'{"version":1,"partitions":[{"topic":"t","partition":1}]}')
    world.controller.isr_changed(stored_states(world.store, take_isr_changes(world.tree)))
    assert world.row(1).leader == 2, "no broker without a replica leads"


@pytest.mark.parametrize(
    ("isr", "changed", "code"),
    [
        ((1, 2), {"broker_epoch": 1}, ErrorCode.STALE_BROKER_EPOCH),
        ((1, 2), {"leader_epoch": 1}, ErrorCode.NOT_CONTROLLER),
        ((1, 2), {"partition_epoch": 9}, ErrorCode.NOT_CONTROLLER),
        ((1, 2), {"leader_epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH),
        ((1, 2), {"partition_epoch": -1}, ErrorCode.INVALID_UPDATE_VERSION),
        ((1, 2, 3), {"partition_epoch": -1}, ErrorCode.NONE),
        ((2,), {"sender": 2}, ErrorCode.INVALID_REQUEST),
        ((2, 3), {}, ErrorCode.INVALID_REQUEST),
        ((1, 9), {}, ErrorCode.INELIGIBLE_REPLICA),
        ((1, 4), {}, ErrorCode.INVALID_REQUEST),
        ((1, 1), {}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_no_leader_may_ask_for_is_refused(
    world: World, isr: tuple[int, ...], changed: dict[str, int], code: ErrorCode
) -> None:
    world.create(
        (1, 2, 3),
    )
    world.controller.brokers_changed(brokers(1, 2, 3, 4))
    assert world.alter(isr, {}, **changed) is code
    assert world.row().isr == (1, 2, 3)


def test_a_dead_broker_does_not_come_into_the_isr(world: World) -> None:
    world.create(
        (1, 2, 3),
    )
    world.controller.brokers_changed(brokers(1, 2))
    assert world.alter((1, 2, 3)) is ErrorCode.INELIGIBLE_REPLICA


def test_who_has_records_of_its_former_life_does_not_come_into_the_isr(world: World) -> None:
    """The leader has counted what a life of that broker has fetched; the next one may have lost it."""
    world.create((1, 2, 3))
    assert world.alter((1, 2)) is ErrorCode.NONE
    world.controller.brokers_changed({**brokers(1, 2), 3: a_broker(3, epoch=500)})
    for epoch in (103, 501):
        assert world.alter((1, 2, 3), {3: epoch}) is ErrorCode.INELIGIBLE_REPLICA
    assert world.row().isr == (1, 2)
    assert world.alter((1, 2, 3), {1: NO_BROKER_EPOCH, 2: 102, 3: 500}) is ErrorCode.NONE
    assert world.row().isr == (1, 2, 3)


def test_where_no_request_says_a_brokers_epoch_its_return_ends_the_leader_epoch_in_which_it_had_fetched(
    world: World,
) -> None:
    """Whatever its leader knows of its former life, or has asked for, is of that epoch."""
    world.fail_over(brokers(1, 2, 3), names_broker_epochs=False)
    world.create((1, 2, 3), (1, 2))
    assert world.alter((1, 2)) is ErrorCode.NONE
    before = world.row()
    world.sent()
    returned = {**brokers(1, 2), 3: a_broker(3, epoch=500)}
    world.controller.brokers_changed(returned)
    assert (world.row().leader, world.row().isr, world.row().leader_epoch) == (1, (1, 2), before.leader_epoch + 1)
    assert world.row(1).leader_epoch == 0, "it has no replica there"
    assert [broker for broker, kind in kinds(world.sent()) if kind == "LeaderAndIsr"] == [1, 2, 3]
    asked_before = world.alter((1, 2, 3), leader_epoch=before.leader_epoch, partition_epoch=before.partition_epoch)
    assert asked_before is ErrorCode.FENCED_LEADER_EPOCH
    assert world.alter((1, 2, 3)) is ErrorCode.NONE


def test_a_return_between_two_terms_ends_that_epoch_too(world: World) -> None:
    world.create((1, 2, 3))
    assert world.alter((1, 2)) is ErrorCode.NONE
    returned = {**brokers(1, 2), 3: a_broker(3, epoch=500)}
    world.fail_over(returned)
    assert world.row().leader_epoch == 0, "who counts its fetches says of which life"
    world.fail_over(returned, names_broker_epochs=False)
    assert (world.row().isr, world.row().leader_epoch) == ((1, 2), 1)
    age_to(world.store, 500)
    assert world.alter((1, 2, 3)) is ErrorCode.NONE
    world.fail_over(returned, names_broker_epochs=False)
    assert world.row().leader_epoch == 1, "the state was written since"


def test_a_deleted_topic_is_gone_when_every_replica_is(world: World) -> None:
    world.create((1, 2), (2, 3))
    world.sent()
    world.controller.delete_topics(["t"])
    sent = world.sent()
    first, stops = sent[0][1], [request for _, request in sent if isinstance(request, StopReplicaRequest)]
    assert isinstance(first, UpdateMetadataRequest)
    assert {state.leader for state in first.topic_states[0].partition_states} == {LEADER_DURING_DELETE}
    assert [len(stop.topic_states[0].partition_states) for stop in stops] == [1, 2, 1]
    for broker in (1, 2):
        world.controller.replicas_deleted(["t"], broker)
    assert world.store.exists(nodes.topic_path("t")) is not None
    world.controller.replicas_deleted(["t"], 3)
    assert world.store.exists(nodes.topic_path("t")) is None
    assert world.store.exists(nodes.deletion_path("t")) is None


def test_a_deletion_waits_for_a_broker_that_is_away_also_over_terms(world: World) -> None:
    world.create(
        (1, 2),
    )
    world.controller.brokers_changed(brokers(1, 3))
    world.controller.delete_topics(["t"])
    world.fail_over(brokers(1, 3))
    assert "t" not in world.controller.image.topics
    leaders = {
        (broker, state.leader)
        for broker, request in world.sent()
        if isinstance(request, UpdateMetadataRequest)
        for topic in request.topic_states
        for state in topic.partition_states
    }
    assert leaders == {(1, LEADER_DURING_DELETE), (3, LEADER_DURING_DELETE)}
    world.controller.replicas_deleted(["t"], 1)
    world.sent()
    world.controller.brokers_changed(brokers(1, 2, 3))
    assert [broker for broker, request in world.sent() if isinstance(request, StopReplicaRequest)] == [2]
    world.controller.replicas_deleted(["t"], 2)
    assert world.store.exists(nodes.topic_path("t")) is None


def test_a_broker_that_registers_again_is_told_of_deletions_under_way(world: World) -> None:
    """It may have been away when they began, and still know the topic."""
    world.create((1, 2))
    world.controller.brokers_changed(brokers(1, 2))
    world.controller.delete_topics(["t"])
    world.sent()
    world.controller.brokers_changed(brokers(1, 2, 3))
    leaders = {
        (broker, state.leader)
        for broker, request in world.sent()
        if isinstance(request, UpdateMetadataRequest)
        for topic in request.topic_states
        for state in topic.partition_states
    }
    assert leaders == {(3, LEADER_DURING_DELETE)}


def test_who_could_not_delete_its_replicas_is_asked_again(world: World) -> None:
    world.create((1, 2, 3))
    world.controller.delete_topics(["t"])
    world.sent()
    assert world.controller.retry_deletions() == {}
    assert (world.sent(), world.controller.has_deletions_to_retry) == ([], False), "nobody has refused it yet"
    world.controller.deletion_failed("t", 1)
    world.controller.deletion_failed("t", 2)
    world.controller.replicas_deleted(["t"], 1)
    assert world.controller.has_deletions_to_retry
    assert world.controller.retry_deletions() == {2: ["t"]}
    assert kinds(world.sent()) == [(2, "StopReplica")]
    assert not world.controller.has_deletions_to_retry, "its answer is to come"
    world.controller.replicas_deleted(["t"], 2)
    world.controller.replicas_deleted(["t"], 3)
    world.controller.deletion_failed("t", 3)
    assert not world.controller.has_deletions_to_retry
    assert world.store.exists(nodes.topic_path("t")) is None


def test_who_has_deleted_its_replicas_is_not_asked_to_do_so_again(world: World) -> None:
    world.create((1, 2))
    world.controller.delete_topics(["t"])
    world.controller.replicas_deleted(["t"], 1)
    world.sent()
    world.controller.brokers_changed({**brokers(3), 1: a_broker(1, epoch=500), 2: a_broker(2, epoch=501)})
    assert [broker for broker, request in world.sent() if isinstance(request, StopReplicaRequest)] == [2]


def test_a_new_term_elects_around_brokers_that_went_before_it(world: World) -> None:
    world.create((1, 2, 3), (2, 3))
    world.fail_over(brokers(3))
    assert [(world.row(index).leader, world.row(index).isr) for index in (0, 1)] == [(3, (3,)), (3, (3,))]
    assert kinds(world.sent()) == [(3, "UpdateMetadata"), (3, "LeaderAndIsr"), (3, "UpdateMetadata")]


def test_the_writes_of_an_earlier_term_are_fenced(world: World) -> None:
    world.create(
        (1, 2, 3),
    )
    earlier = world.controller
    world.fail_over(brokers(1, 2, 3))
    with pytest.raises(BadVersion):
        earlier.brokers_changed(brokers(2, 3))
    assert world.stored().leader == 1


def shut_down(world: World, broker: int, epoch: int = NO_BROKER_EPOCH) -> ControlledShutdownResponse:
    request = ControlledShutdownRequest(broker_id=broker, broker_epoch=epoch)
    return world.controller.controlled_shutdown(request)


def left(response: ControlledShutdownResponse) -> list[int]:
    assert response.error_code is ErrorCode.NONE
    return [each.partition_index for each in response.remaining_partitions]


def test_others_lead_in_the_place_of_a_broker_that_shuts_down(world: World) -> None:
    world.create((1, 2, 3), (2, 1), (3, 2), (1,))
    world.sent()
    assert left(shut_down(world, 1)) == []
    rows = [world.row(index) for index in range(4)]
    assert [(row.leader, row.isr, row.leader_epoch) for row in rows] == [
        (2, (2, 3), 1),
        (2, (2,), 1),
        (3, (3, 2), 0),
        (1, (1,), 0),
    ]
    assert [(world.stored(index).leader, tuple(world.stored(index).isr)) for index in range(2)] == [
        (2, (2, 3)),
        (2, (2,)),
    ]
    sent = world.sent()
    told = [request for broker, request in sent if broker == 1 and isinstance(request, LeaderAndIsrRequest)]
    roles = [row.partition_index for each in told for topic in each.topic_states for row in topic.partition_states]
    assert roles == [0], "it follows nothing anew"
    (stop,) = [request for broker, request in sent if isinstance(request, StopReplicaRequest)]
    assert [
        (row.partition_index, row.delete_partition) for topic in stop.topic_states for row in topic.partition_states
    ] == [(0, False), (1, False)]
    assert [broker for broker, request in sent if isinstance(request, StopReplicaRequest)] == [1]


def test_a_partition_that_nobody_else_has_in_sync_remains_and_is_led_on(world: World) -> None:
    world.create((1, 2))
    assert world.alter((1,)) is ErrorCode.NONE
    world.sent()
    assert left(shut_down(world, 1)) == [0]
    assert left(shut_down(world, 1)) == [0]
    assert world.row().leader == 1
    assert world.alter((1, 2)) is ErrorCode.NONE, "the other one has caught up"
    assert left(shut_down(world, 1)) == []
    assert (world.row().leader, world.row().isr) == (2, (2,))


def test_a_broker_that_shuts_down_is_elected_and_comes_into_sync_no_more(world: World) -> None:
    world.create((2, 1, 3))
    assert left(shut_down(world, 1)) == []
    assert world.alter((2, 3, 1)) is ErrorCode.INELIGIBLE_REPLICA
    world.controller.brokers_changed(brokers(1, 3))
    assert (world.row().leader, world.row().isr) == (3, (3,))
    world.controller.brokers_changed(brokers(1))
    assert world.row().leader == NO_LEADER


def test_a_broker_that_has_come_back_is_a_broker_like_any_other(world: World) -> None:
    world.create((1, 2))
    shut_down(world, 1)
    world.controller.brokers_changed(brokers(2, 3))
    world.controller.brokers_changed({**brokers(2, 3), 1: a_broker(1, 500)})
    assert world.alter((2, 1)) is ErrorCode.NONE
    assert left(shut_down(world, 2)) == []
    assert world.row().leader == 1


def test_who_shuts_down_and_refuses_connections_leads_nothing_any_more(world: World) -> None:
    world.create((3,), (3, 1))
    assert left(shut_down(world, 3)) == []
    world.controller.brokers_changed(brokers(1, 2, 3), unreachable=frozenset({3}))
    assert (world.row().leader, world.row().isr) == (NO_LEADER, (3,))
    world.controller.brokers_changed(brokers(1, 2))
    assert (world.stored().leader, world.stored().leader_epoch) == (NO_LEADER, 1)


def test_a_controlled_shutdown_is_refused_to_whom_it_does_not_concern(world: World) -> None:
    assert shut_down(world, 4).error_code is ErrorCode.BROKER_NOT_AVAILABLE
    assert shut_down(world, 1, 100).error_code is ErrorCode.STALE_BROKER_EPOCH
    assert shut_down(world, 1, 101).error_code is ErrorCode.NONE


def test_what_is_given_once_goes_to_brokers_that_live(world: World) -> None:
    codes = [world.controller.check_sender(broker, epoch) for broker, epoch in ((1, 101), (1, 100), (1, 102), (4, 104))]
    stale = ErrorCode.STALE_BROKER_EPOCH
    assert codes == [ErrorCode.NONE, stale, stale, ErrorCode.BROKER_ID_NOT_REGISTERED]


def test_topics_that_are_named_are_refused_each_for_itself(world: World) -> None:
    """AlterPartition 0 and 1 have names and no ids: partition 0 of one topic is not that of another."""
    world.create((1, 2))
    row = world.row()
    wanted = AlterPartitionPartition(
        partition_index=0,
        leader_epoch=row.leader_epoch,
        new_isr_with_epochs=(IsrMember(broker_id=1),),
        partition_epoch=row.partition_epoch,
    )
    request = AlterPartitionRequest(
        broker_id=1,
        broker_epoch=101,
        topics=(
            AlterPartitionTopic(topic_name="gone", partitions=(wanted,)),
            AlterPartitionTopic(topic_name="t", partitions=(wanted, replace(wanted, partition_index=1))),
        ),
    )
    answered = world.controller.alter_partitions(request).topics
    assert [(topic.topic_name, [each.error_code for each in topic.partitions]) for topic in answered] == [
        ("gone", [ErrorCode.UNKNOWN_TOPIC_ID]),
        ("t", [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
    ]
    assert world.row().isr == answered[1].partitions[0].isr == (1,)


def test_an_internal_topic_waits_until_there_are_as_many_brokers_as_replicas(world: World) -> None:
    """Three brokers start one after the other, and clients come at once: a single replica would stay alone for ever."""
    wanted = NewTopic(name="__consumer_offsets", partitions=2, replication_factor=3)
    controller = world.controller
    controller.settings = replace(controller.settings, internal_topics={wanted.name: wanted})
    random_source = RandomSource(lambda limit: 0, lambda: UUID(int=77))

    def created() -> ErrorCode:
        return auto_create_topics(controller, [wanted.name], SingleBroker().rules, random_source)[wanted.name].code

    controller.brokers_changed(brokers(1, 2))
    assert created() is ErrorCode.INVALID_REPLICATION_FACTOR
    assert wanted.name not in controller.image.topics
    controller.brokers_changed(brokers(1, 2, 3))
    assert created() is ErrorCode.NONE
    assert [sorted(row.replicas) for row in controller.image.topics[wanted.name].partitions] == [[1, 2, 3]] * 2
