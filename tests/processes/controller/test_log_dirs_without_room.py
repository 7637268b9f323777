"""The log directories of brokers in a cluster have no room, and have some again: who leads, and who is in sync?

The elected controller and three hosts with what they tell each other, and nothing else of a broker.
"""

from collections import deque
from random import Random

import pytest

from kafkad.core.cluster.control_requests import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from kafkad.core.controller.elected.announcements import Request
from kafkad.core.controller.elections import ElectionType
from kafkad.core.controller.image import NO_LEADER, Listener, MetadataImage, Partition
from kafkad.core.controller.topics.placement import Placement, SlotTable
from kafkad.core.errors import ErrorCode
from kafkad.core.hosting.hosting import Hosting
from kafkad.core.types import TopicPartition
from kafkad.processes.controller.requests.broker_channels import handle_broker_response
from tests.amounts import seeds_of_tests
from tests.core.controller.elected.test_elected import World, brokers

IDS = (1, 2, 3)
FULL = frozenset({0})
AT_ONCE = 20
"""Lives of one test."""
PLAINTEXT = Listener(name="PLAINTEXT", host="b", port=9092, security_protocol="PLAINTEXT")


class Cluster:
    """Brokers 1 to 3, each with one log directory. Requests and events arrive when the test says so."""

    def __init__(self, *assignments: tuple[int, ...]) -> None:
        self.world = World(*IDS)
        self.hosts = {each: self._host(each) for each in IDS}
        self.requests: dict[int, deque[Request]] = {each: deque() for each in IDS}
        self.events: deque[int] = deque()
        self.elections = 0
        self.world.controller.announce_all()
        self.settle()
        self.world.create(*assignments)
        self.settle()

    def _host(self, broker: int) -> Hosting:
        placement = Placement(SlotTable(size=10), workers=1, online_dirs=(0,))
        image = MetadataImage(version=1, cluster_id="c")
        host = Hosting(broker_id=broker, image=image, placement=placement, has_offline_directory=False)
        host.registered(100 + broker, (PLAINTEXT,), None)
        return host

    def row(self, index: int = 0) -> Partition:
        return self.world.row(index)

    def offline(self, index: int = 0) -> set[int]:
        """As every broker knows."""
        (known,) = {frozenset(each.image.topics["t"].partitions[index].offline) for each in self.hosts.values()}
        return set(known)

    def is_full(self, broker: int) -> None:
        self.hosts[broker].log_dirs_without_space(FULL)
        self._notice(broker)

    def has_space(self, broker: int) -> None:
        self.hosts[broker].log_dirs_without_space(frozenset())
        self._notice(broker)

    def is_gone(self, broker: int) -> None:
        del self.hosts[broker], self.requests[broker]

    def replace_controller_process(self, broker: int) -> None:
        """Its next incarnation has the replicas, and knows nothing of former events and answers."""
        self.hosts[broker].replicas_inherited()
        self.events = deque(each for each in self.events if each != broker)
        self.events.append(broker)
        self._notice(broker)

    def deliver(self, broker: int) -> None:
        """One request, and its answer."""
        request = self.requests[broker].popleft()
        host, controller = self.hosts[broker], self.world.controller
        match request:
            case LeaderAndIsrRequest():
                handle_broker_response(controller, broker, request, host.leader_and_isr(request, {}))
            case UpdateMetadataRequest():
                host.update_metadata(request, {})
            case StopReplicaRequest():
                raise AssertionError("nothing is removed here")
        self._notice(broker)

    def deliver_event(self) -> None:
        self.world.controller.directories_failed({self.events.popleft()})
        self._send()

    def rejoin(self, index: int, broker: int) -> bool:
        """The follower has caught up with its leader, which says so; whether that is possible now."""
        row = self.row(index)
        if row.leader == NO_LEADER or broker in row.isr or broker not in row.replicas or broker not in self.hosts:
            return False
        there = [self.hosts[each].image.topics["t"].partitions[index] for each in (row.leader, broker)]
        if {(each.leader, each.leader_epoch) for each in there} != {(row.leader, row.leader_epoch)}:
            return False
        assert self.world.alter((*row.isr, broker), index=index) is ErrorCode.NONE
        self._send()
        return True

    def elect_preferred(self) -> None:
        at = [TopicPartition("t", row.index) for row in self.world.controller.image.topics["t"].partitions]
        self.world.controller.elect_leaders(at, ElectionType.PREFERRED)
        self._send()

    def requests_arrive(self) -> bool:
        """One of them, if there is one."""
        self._send()
        broker = next((each for each, waiting in self.requests.items() if waiting), None)
        if broker is not None:
            self.deliver(broker)
        return broker is not None

    def settle(self) -> None:
        """All that is on its way arrives, and followers catch up."""
        for _ in range(1_000):
            if self.requests_arrive():
                continue
            if self.events:
                self.deliver_event()
            elif not any(self.rejoin(row.index, each) for row in self._rows() for each in row.replicas):
                return
        raise AssertionError("brokers and controller never come to rest")

    def _rows(self) -> tuple[Partition, ...]:
        topic = self.world.controller.image.topics.get("t")
        return () if topic is None else tuple(topic.partitions)

    def _send(self) -> None:
        for broker, request in self.world.sent():
            self.requests[broker].append(request)

    def _notice(self, broker: int) -> None:
        self.hosts[broker].take_deltas()
        if self.hosts[broker].take_space_event() is not None:
            self.events.append(broker)
        self._send()


def test_another_in_sync_replica_leads_while_a_leader_has_no_room() -> None:
    cluster = Cluster((1, 2, 3))
    epoch = cluster.row().leader_epoch
    cluster.is_full(1)
    cluster.settle()
    assert (cluster.row().leader, cluster.row().leader_epoch) == (2, epoch + 1)
    assert set(cluster.row().isr) == {1, 2, 3}, "it follows, and is in sync as long as it can write"
    assert cluster.offline() == {1}
    cluster.elect_preferred()
    cluster.settle()
    assert (cluster.row().leader, cluster.row().leader_epoch) == (2, epoch + 1)


def test_it_leads_again_after_it_has_room() -> None:
    cluster = Cluster((1, 2, 3))
    cluster.is_full(1)
    cluster.settle()
    cluster.has_space(1)
    cluster.settle()
    assert (cluster.row().leader, cluster.offline()) == (2, set())
    cluster.elect_preferred()
    cluster.settle()
    assert cluster.row().leader == 1


def test_a_follower_without_room_stays_in_sync_and_does_not_take_the_lead() -> None:
    cluster = Cluster((1, 2, 3))
    cluster.is_full(2)
    cluster.settle()
    assert (cluster.row().leader, cluster.row().isr, cluster.offline()) == (1, (1, 2, 3), set())
    cluster.is_full(1)
    cluster.settle()
    assert cluster.row().leader == 3
    assert cluster.offline() == {1, 2}


def test_who_is_alone_in_sync_leads_without_room() -> None:
    cluster = Cluster((1,), (1, 2))
    assert cluster.world.alter((1,), index=1) is ErrorCode.NONE
    while cluster.requests_arrive():
        pass
    cluster.is_full(1)
    assert not cluster.events
    assert [cluster.row(index).leader for index in range(2)] == [1, 1]


def test_the_last_one_leads_when_nobody_has_room_and_the_first_that_has_some_takes_over() -> None:
    cluster = Cluster((1, 2, 3))
    for broker in IDS:
        cluster.is_full(broker)
        cluster.settle()
    assert (cluster.row().leader, cluster.offline()) == (3, {1, 2})
    cluster.has_space(2)
    cluster.settle()
    assert (cluster.row().leader, cluster.offline()) == (2, {1, 3})


def test_who_lacks_room_leads_again_when_all_others_are_gone() -> None:
    cluster = Cluster((1, 2))
    cluster.is_full(1)
    cluster.settle()
    assert (cluster.row().leader, set(cluster.row().isr)) == (2, {1, 2})
    cluster.world.controller.brokers_changed(brokers(1, 3))
    cluster.is_gone(2)
    cluster.settle()
    assert (cluster.row().leader, cluster.row().isr, cluster.offline()) == (1, (1,), set())


def test_the_next_controller_process_of_a_broker_takes_back_what_the_former_left() -> None:
    cluster = Cluster((1, 2, 3))
    cluster.is_full(1)
    cluster.settle()
    cluster.hosts[1].log_dirs_without_space(frozenset())
    cluster.replace_controller_process(1)
    cluster.settle()
    assert cluster.offline() == set()


def test_a_new_controller_hears_of_it() -> None:
    cluster = Cluster((1, 2, 3))
    cluster.is_full(1)
    cluster.settle()
    cluster.world.fail_over(brokers(*IDS))
    cluster.world.controller.begin()
    cluster.settle()
    assert (cluster.row().leader, cluster.offline()) == (2, {1})


@pytest.mark.parametrize("seeds", seeds_of_tests("room_lives", AT_ONCE))
def test_whoever_has_room_leads_in_the_end(seeds: range) -> None:
    for seed in seeds:
        _live(Random(seed))


def _live(random: Random) -> None:
    cluster = Cluster(*[tuple(random.sample(IDS, random.randint(1, 3))) for _ in range(3)])
    full: set[int] = set()
    for _ in range(random.randint(1, 60)):
        broker = random.choice(IDS)
        match random.randint(0, 9):
            case 0:
                cluster.is_full(broker)
                full.add(broker)
            case 1:
                cluster.has_space(broker)
                full.discard(broker)
            case 2:
                cluster.elect_preferred()
            case 3:
                cluster.rejoin(random.randrange(3), broker)
            case 4:
                cluster.replace_controller_process(broker)
            case 5 if cluster.events:
                cluster.deliver_event()
            case _ if cluster.requests[broker]:
                cluster.deliver(broker)
    cluster.settle()
    for row in cluster.world.controller.image.topics["t"].partitions:
        assert row.leader in row.isr
        assert set(row.isr) == set(row.replicas)
        assert row.leader not in full or full.issuperset(row.replicas)
        assert cluster.offline(row.index) <= full
    for broker in IDS:
        cluster.has_space(broker)
    cluster.settle()
    assert [cluster.offline(index) for index in range(3)] == [set(), set(), set()]
