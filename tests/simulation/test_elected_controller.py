"""Controllers elected one after the other, with a store that fails in the middle of writes, brokers that lose their
memory and hear late, and strangers who write nodes: whatever the order, no election loses a record, and in the end
all agree.

All seeds are random: `controller_stories`. The recorded ones are those of `test_controller_mutants`, where the same
story is told without the fault.
"""

import random
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import UUID

import pytest

from kafkad.adapters.stores.embedded_store import EmbeddedStore
from kafkad.core.cluster.control_requests import (
    EPOCH_DURING_DELETE,
    LEADER_DURING_DELETE,
    AlterPartitionPartition,
    AlterPartitionRequest,
    AlterPartitionTopic,
    ControlledShutdownRequest,
    IsrMember,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    StopReplicaPartition,
    StopReplicaRequest,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
)
from kafkad.core.controller.controller import PlannedTopic
from kafkad.core.controller.elected.announcements import Announcer, Request
from kafkad.core.controller.elected.controller_failover import controller_failover
from kafkad.core.controller.elected.elected import ElectedController
from kafkad.core.controller.elections import ElectionType
from kafkad.core.controller.image import NO_LEADER, Broker, Listener
from kafkad.core.controller.reassignments import under_way
from kafkad.core.controller.settings import ControllerSettings
from kafkad.core.controller.startup.term import claim, ensure_paths
from kafkad.core.controller.store import nodes
from kafkad.core.controller.store.tree import MetadataTree
from kafkad.core.controller.topics.assignment import ReplicaAssignment
from kafkad.core.controller.topics.topics import TopicDefaults
from kafkad.core.coordination_store import (
    BadVersion,
    Change,
    Check,
    CoordinationError,
    Operation,
    Outcome,
    SessionSuspended,
)
from kafkad.core.errors import ErrorCode
from kafkad.core.types import RECOVERED, RECOVERING, TopicPartition
from kafkad.plugins.leader_election import PreferredReplica
from tests.amounts import seeds_of_tests

AT_ONCE = 50
STEPS = 90
BROKERS = range(1, 5)
TOPICS = ("a", "b", "unclean")
UNCLEAN = {"unclean.leader.election.enable": "true"}
"""Of the topic of this name, whose records may be lost: any replica may lead."""
LISTENER = "PLAINTEXT"
ODD = b"no JSON"
ODD_TOPIC = "odd"


class UnreliableStore(EmbeddedStore):
    """Does so many more writes, then fails once; the last one may have been done."""

    def __init__(self) -> None:
        super().__init__(Path(":memory:"), 7)
        self.writes_left: int | None = None
        self.last_is_done = False

    def transaction(self, operations: Sequence[Operation]) -> list[Outcome]:
        if self.writes_left is None or self.writes_left > 0:
            self.writes_left = None if self.writes_left is None else self.writes_left - 1
            return super().transaction(operations)
        self.writes_left = None
        if self.last_is_done:
            super().transaction(operations)
        raise SessionSuspended(operations[0].path)

    def pipelined(self, changes: Sequence[Change], *, guard: Check | None = None) -> list[Outcome | CoordinationError]:
        if self.writes_left is None or self.writes_left >= len(changes):
            self.writes_left = None if self.writes_left is None else self.writes_left - len(changes)
            return super().pipelined(changes, guard=guard)
        done, self.writes_left = changes[: self.writes_left], None
        super().pipelined(done, guard=guard)
        raise SessionSuspended(changes[0].path)


@dataclass(slots=True)
class HostingBroker:
    """What one broker was told; only `held`, its replicas by name, index and id, outlives a crash."""

    id: int
    epoch: int
    topics: Callable[[], Collection[str]]
    """As the store has them now."""
    is_alive: bool = True
    controller_epoch: int = 0
    compared: tuple[int, int] = (0, 0)
    """The epochs of the controller and of this broker for which it has compared its metadata with the store."""
    roles: dict[tuple[str, int], tuple[UUID, LeaderAndIsrPartition]] = field(default_factory=dict)
    metadata: dict[tuple[str, int], UpdateMetadataPartition] = field(default_factory=dict)
    held: dict[tuple[str, int], UUID] = field(default_factory=dict)
    offline: set[tuple[str, int]] = field(default_factory=set)
    """Of these the directory has failed, until a restart."""

    def restart(self, epoch: int, assigned: dict[tuple[str, int], UUID]) -> None:
        """What no assignment names is set aside."""
        self.is_alive, self.epoch, self.controller_epoch = True, epoch, 0
        self.offline.clear()
        self.held = {at: topic_id for at, topic_id in self.held.items() if assigned.get(at) == topic_id}
        self.roles.clear()
        self.metadata.clear()

    def register_again(self, epoch: int) -> None:
        """Its session was lost, and nothing else: it has no role, and knows the metadata of before."""
        self.epoch = epoch
        self.roles.clear()

    def apply(self, request: Request) -> bool:
        """False: refused, as of an earlier term or for an earlier life of this broker."""
        if request.broker_epoch != self.epoch or request.controller_epoch < self.controller_epoch:
            return False
        self.controller_epoch = request.controller_epoch
        match request:
            case LeaderAndIsrRequest():
                self._take_roles(request)
            case UpdateMetadataRequest():
                for named in request.topic_states:
                    for known in named.partition_states:
                        at = named.topic_name, known.partition_index
                        self._heed_removal(at, named.topic_id, known)
                        if known.leader == LEADER_DURING_DELETE:
                            self.metadata.pop(at, None)
                        else:
                            self.metadata[at] = known
            case StopReplicaRequest():
                for stopped in request.topic_states:
                    for each in stopped.partition_states:
                        self._stop((stopped.topic_name, each.partition_index), each)
        if self.compared != (self.controller_epoch, self.epoch):
            self.compared = self.controller_epoch, self.epoch
            self._forget_deleted(self.topics())
        return True

    def _forget_deleted(self, present: Collection[str]) -> None:
        hosted = {name for name, _ in self.roles}
        for at in [each for each in self.metadata if each[0] not in present and each[0] not in hosted]:
            del self.metadata[at]

    def offline_of(self, request: LeaderAndIsrRequest) -> list[TopicPartition]:
        named = [
            (topic.topic_name, row.partition_index) for topic in request.topic_states for row in topic.partition_states
        ]
        return [TopicPartition(*at) for at in named if at in self.offline]

    def _heed_removal(self, at: tuple[str, int], topic_id: UUID, known: UpdateMetadataPartition) -> None:
        role = self.roles.get(at)
        if role is None or role[0] != topic_id or self.id in known.replicas:
            return
        if known.leader == LEADER_DURING_DELETE or known.leader_epoch > role[1].leader_epoch:
            del self.roles[at], self.held[at]

    def _stop(self, at: tuple[str, int], stopped: StopReplicaPartition) -> None:
        role = self.roles.get(at)
        if at in self.offline:
            return
        if role is not None and EPOCH_DURING_DELETE < stopped.leader_epoch < role[1].leader_epoch:
            return
        self.roles.pop(at, None)
        if stopped.delete_partition:
            self.held.pop(at, None)

    def _take_roles(self, request: LeaderAndIsrRequest) -> None:
        for topic in request.topic_states:
            for state in topic.partition_states:
                at = topic.topic_name, state.partition_index
                if at in self.offline:
                    continue
                assert self.held.get(at, topic.topic_id) == topic.topic_id, f"{at} of a deleted topic is still here"
                self.held[at] = topic.topic_id
                before = self.roles.get(at)
                if before is None or before[1].leader_epoch <= state.leader_epoch:
                    self.roles[at] = topic.topic_id, state


@dataclass(frozen=True, slots=True)
class Stored:
    state: nodes.StateNode
    version: int


class ClusterRun:
    """One seed: a store, brokers, the elected controller, and those that do not know yet that they are not."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.store = UnreliableStore()
        ensure_paths(self.store)
        self.brokers = {each: HostingBroker(each, self._new_epoch(), self.topics) for each in BROKERS}
        self.channels: dict[tuple[int, int], deque[Request]] = defaultdict(deque)
        """What (controller, broker) has under way, in order."""
        self.known: dict[tuple[UUID, int], Stored] = {}
        self.earlier: list[tuple[int, ElectedController]] = []
        self.asked: list[AlterPartitionRequest] = []
        self.told: dict[tuple[UUID, int, int], tuple[int, ...]] = {}
        """The replicas that LeaderAndIsr named, by topic id, partition and leader epoch."""
        self.leaving: set[tuple[int, int]] = set()
        """(broker, its epoch) of those that want to shut down."""
        self.suspects: set[tuple[int, int]] = set()
        """(broker, its epoch) of those that live, and whose hosts refuse the controller's connections."""
        self.isr_may_grow = False
        self.assigned_before: dict[tuple[UUID, int], ReplicaAssignment] = {}
        self.unclean: set[UUID] = set()
        self.spoilt: dict[str, bytes] = {}
        """What state nodes had before a stranger wrote them."""
        self.elect(1)

    def _new_epoch(self) -> int:
        """As a registration gets it: of the change that makes it."""
        return self.store.set_data("/brokers", b"").modified_id

    def topics(self) -> set[str]:
        return set(self.store.children(nodes.TOPICS)) - {ODD_TOPIC}

    def new_id(self) -> UUID:
        return UUID(int=self.random.getrandbits(128) | 1)

    def live(self) -> dict[int, Broker]:
        return {
            each.id: Broker(
                id=each.id,
                epoch=each.epoch,
                listeners=(Listener(name=LISTENER, host="b", port=each.id, security_protocol=LISTENER),),
                rack=None,
            )
            for each in self.brokers.values()
            if each.is_alive
        }

    def gone(self) -> frozenset[int]:
        return frozenset(each.id for each in self.live().values() if (each.id, each.epoch) in self.suspects)

    def elect(self, broker_id: int) -> None:
        while True:
            try:
                self._fail_over(broker_id)
            except SessionSuspended:
                continue
            return

    def _fail_over(self, broker_id: int) -> None:
        self.suspects.discard((broker_id, self.brokers[broker_id].epoch))
        term = claim(self.store, broker_id, 1_000)
        self.controller_id, self.controller = (
            broker_id,
            controller_failover(
                self.store,
                MetadataTree(self.store, term),
                settings=ControllerSettings(defaults=TopicDefaults(partitions=1, replication_factor=1)),
                election=PreferredReplica(),
                announcer=Announcer(
                    controller_id=broker_id,
                    controller_epoch=term.epoch,
                    listener=LISTENER,
                    brokers=self.live(),
                    unreachable=self.gone(),
                ),
                cluster_id="c",
                new_topic_id=self.new_id,
            ),
        )
        self.send()

    def send(self) -> None:
        for broker, request in self.controller.take_requests():
            self.channels[self.controller_id, broker].append(request)
            for topic in request.topic_states if isinstance(request, LeaderAndIsrRequest) else ():
                for state in topic.partition_states:
                    at = topic.topic_id, state.partition_index, state.leader_epoch
                    assert self.told.setdefault(at, state.replicas) == state.replicas, f"{at} has two assignments"

    # Events.

    def step(self) -> None:
        events = (
            self.broker_goes_or_comes,
            self.broker_loses_its_session,
            self.brokers_are_seen,
            self.broker_is_suspected_or_trusted,
            self.broker_asks_to_shut_down,
            self.topic_is_made_or_deleted,
            self.directory_fails,
            self.directory_fails,
            self.leaders_are_balanced,
            self.partitions_are_reassigned,
            self.partitions_are_reassigned,
            *[self.leader_asks] * 6,
            self.controller_changes,
            self.earlier_controller_writes,
            self.preferred_replicas_are_elected,
            self.store_will_fail,
            self.stranger_writes,
            *[self.request_arrives] * 16,
        )
        self.isr_may_grow = False
        try:
            self.random.choice(events)()
            self.send()
        except (SessionSuspended, BadVersion):
            self.elect(self.controller_id)
        self.check()

    def broker_goes_or_comes(self) -> None:
        broker = self.random.choice(list(self.brokers.values()))
        if broker.is_alive:
            broker.is_alive = False
        else:
            broker.restart(self._new_epoch(), self.assigned(broker.id))

    def broker_loses_its_session(self) -> None:
        broker = self.random.choice([each for each in self.brokers.values() if each.is_alive] or [None])
        if broker is not None:
            broker.register_again(self._new_epoch())

    def assigned(self, broker_id: int) -> dict[tuple[str, int], UUID]:
        """As the store has it."""
        found = {}
        for name in self.topics():
            topic = nodes.decode_topic(self.store.get(nodes.topic_path(name)).data)
            for index, replicas in topic.partitions.items():
                if broker_id in replicas:
                    found[name, int(index)] = nodes.decode_id(topic.topic_id or "")
        return found

    def directory_fails(self) -> None:
        """The broker says so at once; which replicas are meant is in its answers to the roles that it has already."""
        broker = self.random.choice([each for each in self.brokers.values() if each.is_alive] or [None])
        if broker is not None and broker.held:
            failed = self.random.sample(sorted(broker.held), self.random.randint(1, len(broker.held)))
            broker.offline |= set(failed)
            for at in failed:
                broker.roles.pop(at, None)
            self.controller.directories_failed([broker.id])
            self.send()
            while self.channels[self.controller_id, broker.id]:
                self.deliver(self.controller_id, broker.id)

    def leaders_are_balanced(self) -> None:
        before = self.stored()
        self.controller.balance_leaders(self.random.choice((0, 10, 50)))
        after = self.stored()
        assert {at: set(each.state.isr) for at, each in before.items()} == {
            at: set(each.state.isr) for at, each in after.items()
        }, "leadership that is given back changes who is in sync"

    def partitions_are_reassigned(self) -> None:
        """To other replicas, or no more."""
        topics = list(self.controller.image.topics.values())
        if not topics:
            return
        topic = self.random.choice(topics)
        wanted: dict[TopicPartition, tuple[int, ...] | None] = {}
        for row in topic.partitions[: self.random.randint(1, len(topic.partitions))]:
            replicas = tuple(self.random.sample(list(BROKERS), self.random.randint(1, 3)))
            wanted[TopicPartition(topic.name, row.index)] = replicas if self.random.random() < 0.8 else None
        before = self.controller.image
        results = self.controller.reassign(list(wanted.items()))
        after = self.controller.image.topics[topic.name]
        for at, refusal in zip(wanted, results, strict=True):
            row, target = after.partitions[at.partition], wanted[at]
            if refusal is not None:
                assert row == before.topics[topic.name].partitions[at.partition], f"{at} was refused and has changed"
            elif target is not None:
                assert tuple(each for each in row.replicas if each not in row.removing) == target
            else:
                assert not row.adding and not row.removing, f"{at} was cancelled and goes on"

    def broker_asks_to_shut_down(self) -> None:
        """It lives on for a while, and asks whoever is elected."""
        broker = self.random.choice([each for each in self.brokers.values() if each.is_alive] or [None])
        if broker is None:
            return
        self.leaving.add((broker.id, broker.epoch))
        request = ControlledShutdownRequest(broker_id=broker.id, broker_epoch=broker.epoch)
        response = self.controller.controlled_shutdown(request)
        if response.error_code is ErrorCode.NONE:
            remaining = {(each.topic_name, each.partition_index) for each in response.remaining_partitions}
            for name, topic in self.controller.image.topics.items():
                for row in topic.partitions:
                    others = set(row.isr) & self.controller.image.brokers.keys()
                    others -= {each for each, epoch in self.leaving if epoch == self.brokers[each].epoch}
                    others -= {each for each in others if (name, row.index) in self.brokers[each].offline}
                    if row.leader == broker.id and len(row.replicas) > 1:
                        assert (name, row.index) in remaining, f"{name}-{row.index} is led on, and nobody says so"
                        assert not others, f"{name}-{row.index} is led on, though {others} could"

    def brokers_are_seen(self) -> None:
        self.controller.brokers_changed(self.live(), self.gone())

    def broker_is_suspected_or_trusted(self) -> None:
        """It lives on and gets what was sent before."""
        others = [each for each in self.brokers.values() if each.id != self.controller_id]
        broker = self.random.choice(others)
        self.suspects ^= {(broker.id, broker.epoch)}
        self.brokers_are_seen()

    def topic_is_made_or_deleted(self) -> None:
        name = self.random.choice(TOPICS)
        live = list(self.controller.image.brokers)
        if name in self.controller.image.topics:
            self.controller.delete_topics([name])
        elif name not in self.controller.deletions and live:
            size = min(3, len(live))
            assignments = tuple(tuple(self.random.sample(live, size)) for _ in range(self.random.randint(1, 3)))
            topic_id, configs = self.new_id(), UNCLEAN if name == "unclean" else {}
            self.unclean |= {topic_id} if configs else set()
            self.controller.create_topics(
                [PlannedTopic(name=name, id=topic_id, assignments=assignments, configs=configs)]
            )

    def preferred_replicas_are_elected(self) -> None:
        self.controller.elect_leaders(None, ElectionType.PREFERRED)

    def leader_asks(self) -> None:
        """A leader as it knows itself, perhaps no longer one; perhaps with what it asked for long ago.

        Now and then it is a follower, which has no say.
        """
        is_leader = self.random.random() < 0.9
        led = [
            (broker, topic_id, state)
            for broker in self.brokers.values()
            if broker.is_alive
            for topic_id, state in broker.roles.values()
            if (state.leader == broker.id) == is_leader
        ]
        if led:
            broker, topic_id, state = self.random.choice(led)
            others = [each for each in state.replicas if each != broker.id]
            isr = (broker.id, *self.random.sample(others, self.random.randint(0, len(others))))
            wanted = AlterPartitionPartition(
                partition_index=state.partition_index,
                leader_epoch=state.leader_epoch,
                new_isr_with_epochs=tuple(IsrMember(broker_id=each) for each in isr),
                partition_epoch=state.partition_epoch,
                leader_recovery_state=self.random.choice((RECOVERED, state.leader_recovery_state)),
            )
            topics = (AlterPartitionTopic(topic_id=topic_id, partitions=(wanted,)),)
            self.asked.append(AlterPartitionRequest(broker_id=broker.id, broker_epoch=broker.epoch, topics=topics))
        if self.asked:
            self.isr_may_grow = True
            self.answer_leader(self.random.choice(self.asked[-10:]))

    def answer_leader(self, request: AlterPartitionRequest) -> None:
        before = self.stored()
        live = set(self.controller.image.brokers)
        response = self.controller.alter_partitions(request)
        ((wanted,),) = (topic.partitions for topic in request.topics)
        at = request.topics[0].topic_id, wanted.partition_index
        if before != self.stored():
            assert at in before, f"{at}: a state that nobody can read was overwritten"
            decided_on = before[at].state.leader, before[at].state.leader_epoch, before[at].version
            asked_on = request.broker_id, wanted.leader_epoch, wanted.partition_epoch
            assert decided_on == asked_on, f"{at}: {asked_on} changed {decided_on}"
            joined = {each.broker_id for each in wanted.new_isr_with_epochs} - set(before[at].state.isr)
            assert joined <= live, f"{at}: {joined} came in sync, alive are {live}"
        broker = self.brokers[request.broker_id]
        if response.error_code is not ErrorCode.NONE or request.broker_epoch != broker.epoch:
            return
        (topic,) = response.topics
        (altered,) = topic.partitions
        for place, (topic_id, state) in broker.roles.items():
            if (topic_id, place[1], altered.error_code) == (topic.topic_id, altered.partition_index, ErrorCode.NONE):
                broker.roles[place] = topic_id, replace(state, isr=altered.isr, partition_epoch=altered.partition_epoch)

    def controller_changes(self) -> None:
        self.earlier.append((self.controller_id, self.controller))
        self.elect(self.random.choice(BROKERS))

    def earlier_controller_writes(self) -> None:
        if not self.earlier:
            return
        _, controller = self.earlier.pop(self.random.randrange(len(self.earlier)))
        before = self.stored()
        nodes_before = self.topic_nodes()
        topics = sorted(self.store.children(nodes.TOPICS)), sorted(self.store.children(nodes.DELETIONS))
        with suppress(BadVersion):
            if controller.image.topics and self.random.random() < 0.3:
                name, topic = next(iter(controller.image.topics.items()))
                controller.reassign([(TopicPartition(name, row.index), (1,)) for row in topic.partitions])
            elif controller.image.topics and self.random.random() < 0.5:
                controller.delete_topics([next(iter(controller.image.topics))])
            else:
                controller.brokers_changed(dict(list(self.live().items())[1:]))
        assert before == self.stored(), "an earlier controller changed a state"
        assert nodes_before == self.topic_nodes(), "an earlier controller changed an assignment"
        after = sorted(self.store.children(nodes.TOPICS)), sorted(self.store.children(nodes.DELETIONS))
        assert topics == after, "an earlier controller changed a topic"

    def topic_nodes(self) -> list[bytes]:
        return [self.store.get(nodes.topic_path(name)).data for name in sorted(self.store.children(nodes.TOPICS))]

    def store_will_fail(self) -> None:
        self.store.writes_left = self.random.randrange(6)
        self.store.last_is_done = self.random.random() < 0.5

    def stranger_writes(self) -> None:
        """A topic that is none, or the state of a partition; who is elected need not know it yet."""
        if self.random.random() < 0.2 and self.store.exists(nodes.topic_path(ODD_TOPIC)) is None:
            self.store.create(nodes.topic_path(ODD_TOPIC), ODD)
        names = sorted(self.topics())
        if names:
            path = nodes.state_path(self.random.choice(names), 0)
            (node,) = self.store.get_many([path])
            if node is not None and node.data != ODD:
                self.spoilt[path] = node.data
                self.store.set_data(path, ODD)

    def strangers_writes_are_undone(self) -> None:
        if self.store.exists(nodes.topic_path(ODD_TOPIC)) is not None:
            self.store.delete(nodes.topic_path(ODD_TOPIC))
        for path, data in self.spoilt.items():
            (node,) = self.store.get_many([path])
            if node is not None and node.data == ODD:
                self.store.set_data(path, data)
        self.elect(self.controller_id)

    def request_arrives(self) -> None:
        waiting = [at for at, queue in self.channels.items() if queue]
        if waiting:
            self.deliver(*self.random.choice(sorted(waiting)))

    def deliver(self, controller_id: int, broker_id: int) -> None:
        request = self.channels[controller_id, broker_id].popleft()
        broker = self.brokers[broker_id]
        applied = broker.is_alive and broker.apply(request)
        if applied and isinstance(request, LeaderAndIsrRequest) and controller_id == self.controller_id:
            offline = broker.offline_of(request)
            self.controller.replicas_offline(broker_id, request.broker_epoch, offline)
            registered = self.controller.image.brokers.get(broker_id)
            if registered is not None and registered.epoch == request.broker_epoch:
                self.check_nobody_leads_offline(broker_id, offline)
        if applied and isinstance(request, StopReplicaRequest) and controller_id == self.controller_id:
            for topic in request.topic_states:
                if any((topic.topic_name, each.partition_index) in broker.offline for each in topic.partition_states):
                    continue
                if any(each.leader_epoch == EPOCH_DURING_DELETE for each in topic.partition_states):
                    self.controller.replicas_deleted([topic.topic_name], broker_id)

    # What must hold.

    def check_nobody_leads_offline(self, broker_id: int, offline: list[TopicPartition]) -> None:
        for at in offline:
            topic = self.controller.image.topics.get(at.topic)
            if topic is not None and at.partition < len(topic.partitions):
                assert topic.partitions[at.partition].leader != broker_id, f"{at} is led from a directory that failed"

    def assignments(self) -> dict[tuple[UUID, int], ReplicaAssignment]:
        found = {}
        for name in self.topics():
            topic = nodes.decode_topic(self.store.get(nodes.topic_path(name)).data)
            for index, replicas in topic.partitions.items():
                adding, removing = topic.adding_replicas.get(index, ()), topic.removing_replicas.get(index, ())
                at = nodes.decode_id(topic.topic_id or ""), int(index)
                found[at] = ReplicaAssignment(replicas, adding, removing)
        return found

    def check_assignment(self, old: ReplicaAssignment, new: ReplicaAssignment, isr: tuple[int, ...]) -> None:
        """Old replicas go when all of the target are in sync, or new ones go when that is cancelled."""
        gone = set(old.replicas) - set(new.replicas)
        if gone and not new.is_being_reassigned:
            is_cancelled = gone <= set(old.adding)
            assert is_cancelled or set(new.replicas) <= set(isr), f"{old} became {new}, in sync are {isr}"

    def stored(self) -> dict[tuple[UUID, int], Stored]:
        found = {}
        for name in self.topics():
            topic = nodes.decode_topic(self.store.get(nodes.topic_path(name)).data)
            assert topic.topic_id is not None, f"{name} has no id"
            for index in range(len(topic.partitions)):
                (node,) = self.store.get_many([nodes.state_path(name, index)])
                if node is not None and node.data != ODD:
                    at = nodes.decode_id(topic.topic_id), index
                    found[at] = Stored(nodes.decode_state(node.data), node.version)
        return found

    def check(self) -> None:
        now = self.stored()
        for at, stored in now.items():
            state = stored.state
            assert state.isr, f"{at}: nobody is in sync"
            assert state.leader in (NO_LEADER, *state.isr), f"{at}: {state.leader} leads outside of {state.isr}"
            if at in self.known:
                self.check_change(at, self.known[at], stored)
        self.known = now
        assignments = self.assignments()
        for at, assignment in assignments.items():
            if at in self.assigned_before and at in now:
                self.check_assignment(self.assigned_before[at], assignment, now[at].state.isr)
        self.assigned_before = assignments

    def check_change(self, at: tuple[UUID, int], old: Stored, new: Stored) -> None:
        assert new.version >= old.version, f"{at}: the partition epoch went back"
        assert new.state.leader_epoch >= old.state.leader_epoch, f"{at}: the leader epoch went back"
        if new.state.leader_epoch == old.state.leader_epoch:
            assert new.state.leader == old.state.leader, f"{at}: two leaders in one epoch"
        self.check_recovery(at, old, new)
        grown = set(new.state.isr) - set(old.state.isr)
        may_grow = self.isr_may_grow or at[0] in self.unclean
        assert may_grow or not grown, f"{at}: {grown} came in sync without their leader's word"

    def check_recovery(self, at: tuple[UUID, int], old: Stored, new: Stored) -> None:
        """It begins with an unclean election, and only with one."""
        was, is_now = (each.state.leader_recovery_state == RECOVERING for each in (old, new))
        assert was or not is_now or at[0] in self.unclean, f"{at} recovers from an election that was clean"
        if new.version == old.version + 1 and new.state.leader not in (NO_LEADER, *old.state.isr):
            assert is_now, f"{at}: {new.state.leader} leads, {old.state.isr} were in sync, and nobody is told"

    def settle(self) -> None:
        """All brokers are back and everything arrives."""
        self.store.writes_left, self.isr_may_grow = None, False
        self.strangers_writes_are_undone()
        self.suspects.clear()
        for broker in self.brokers.values():
            if not broker.is_alive or broker.offline or (broker.id, broker.epoch) in self.leaving:
                broker.restart(self._new_epoch(), self.assigned(broker.id))
        self.brokers_are_seen()
        self.send()
        self.all_arrives()
        self.check()
        self.reassignments_end()
        self.check()

    def all_arrives(self) -> None:
        while any(self.channels.values()):
            self.request_arrives()
            self.send()

    def reassignments_end(self) -> None:
        """Every replica catches up, and its leader says so."""
        self.isr_may_grow = True
        for at in under_way(self.controller.image, None):
            topic = self.controller.image.topics[at.topic]
            row = topic.partitions[at.partition]
            leader = self.brokers[row.leader]
            assert leader.roles[at.topic, at.partition][1].replicas == row.replicas, f"{at}: its leader knows others"
            wanted = AlterPartitionPartition(
                partition_index=at.partition,
                leader_epoch=row.leader_epoch,
                new_isr_with_epochs=tuple(IsrMember(broker_id=each) for each in row.replicas),
                partition_epoch=row.partition_epoch,
            )
            topics = (AlterPartitionTopic(topic_id=topic.id, partitions=(wanted,)),)
            self.answer_leader(AlterPartitionRequest(broker_id=leader.id, broker_epoch=leader.epoch, topics=topics))
            self.send()
        self.all_arrives()
        assert not under_way(self.controller.image, None), "a reassignment is never done"

    def check_agreement(self) -> None:
        image = self.controller.image
        assert not self.store.children(nodes.DELETIONS), "a deletion is never finished"
        assert set(self.store.children(nodes.TOPICS)) == image.topics.keys()
        rows = {(name, row.index): row for name, topic in image.topics.items() for row in topic.partitions}
        for at, row in rows.items():
            assert row.leader != NO_LEADER, f"{at} has no leader"
            stored = self.known[image.topics[at[0]].id, at[1]]
            assert stored.version == row.partition_epoch
            assert (stored.state.leader_recovery_state == RECOVERING) == (row.leader_recovery_state == RECOVERING)
        for broker in self.brokers.values():
            known = {at: (each.leader, each.isr, each.zk_version) for at, each in broker.metadata.items()}
            mine = {at: row.leader_epoch for at, row in rows.items() if broker.id in row.replicas}
            told = {at: state.leader_epoch for at, (_, state) in broker.roles.items()}
            assert told == mine, f"broker {broker.id} was told of other roles"
            # What was removed while it was away, unheard of by it and by the present term, is set aside later.
            broker.restart(broker.epoch, self.assigned(broker.id))
            assert broker.held == {at: image.topics[at[0]].id for at in mine}
            states = {at: (row.leader, row.isr, row.partition_epoch) for at, row in rows.items()}
            assert known == states, f"broker {broker.id} was told of other states"


def play(seed: int) -> None:
    run = ClusterRun(seed)
    for _ in range(STEPS):
        run.step()
    run.settle()
    run.check_agreement()
    run.store.close()


@pytest.mark.parametrize("seeds", seeds_of_tests("controller_stories", AT_ONCE))
def test_controllers_lose_nothing_and_brokers_agree_in_the_end(seeds: range) -> None:
    for seed in seeds:
        try:
            play(seed)
        except (AssertionError, CoordinationError) as error:
            pytest.fail(f"seed {seed}: {error}")
