"""Random runs of KIP-848 groups under a virtual clock.

A partition never has two owners, no member gets stuck, members do not notice a crash, and no append is refused.
The seeds that found something are fixed, the others random: `consumer_group_lives`.
"""

import random
from collections.abc import Iterable
from itertools import count
from uuid import UUID

import pytest

from kafkad.core.errors import ErrorCode
from kafkad.core.groups.consumer.group import ConsumerGroup
from kafkad.core.groups.consumer.member import MemberState
from kafkad.core.groups.consumer.timers import ConsumerTimer, ConsumerTimerKey
from tests.amounts import seeds_of_tests
from tests.attributes import attributes_of
from tests.core.groups.consumer_bed import Client, ConsumerBed

AT_ONCE = 50
TOPICS = {"orders": 5, "payments": 2, "refunds": 3}
STEPS = 120
FOUND_SOMETHING = (701422, 590499629)
REPLAYED = tuple(name for name in attributes_of(ConsumerGroup) if name not in ("resolved_version", "pending_rejoins"))
"""Of a group: the rest is in no record."""


class Incarnation:
    """A few clients that come, go, crash, are slow and change their minds; the coordinator crashes in between."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.bed = ConsumerBed()
        self.bed.divide_once_in(self.random.choice([0, 1_000, 15_000]))
        self.bed.topics.by_name = {name: (UUID(int=n + 1), size) for n, (name, size) in enumerate(TOPICS.items())}
        self.mirror = self.bed.mirror()
        self.names = count(1)
        self.clients: list[Client] = []
        self.away: list[str] = []
        """Instance ids of static members that left for now."""

    def step(self) -> None:
        steps = {
            self.beat: 60, self.join: 8, self.leave: 3, self.crash_client: 3, self.subscribe: 4,
            self.slow: 6, self.time: 12, self.crash: 2, self.grow: 1, self.refuse: 2, self.heal: 6,
        }  # fmt: skip
        self.random.choices(list(steps), list(steps.values()))[0]()
        self.check()

    def _some(self) -> Client | None:
        return self.random.choice(self.clients) if self.clients else None

    def beat(self) -> None:
        client = self._some()
        if client is not None:
            client.try_beat(lose_answer=self.random.random() < 0.1)

    def join(self) -> None:
        if len(self.clients) >= 6:
            return
        topics = self.random.sample(sorted(TOPICS), self.random.randint(1, 3))
        regex = self.random.choice([None, None, None, "(orders|refunds)", ".*s"])
        instance_id = self.random.choice([None, *self.away, f"i{next(self.names)}"])
        if instance_id in self.away:
            self.away.remove(instance_id or "")
        client = Client(self.bed, f"m{next(self.names)}", *topics, regex=regex, instance_id=instance_id)
        self.clients.append(client)
        client.try_beat(lose_answer=self.random.random() < 0.1)

    def leave(self) -> None:
        client = self._some()
        if client is None or client.epoch == 0:
            return
        self.clients.remove(client)
        for_now = client.instance_id is not None and self.random.random() < 0.6
        if client.try_to_leave(for_now=for_now) is None:
            return
        if for_now and client.instance_id is not None:
            self.away.append(client.instance_id)

    def crash_client(self) -> None:
        client = self._some()
        if client is not None:
            self.clients.remove(client)

    def subscribe(self) -> None:
        client = self._some()
        if client is not None:
            client.subscribe(*self.random.sample(sorted(TOPICS), self.random.randint(1, 3)))

    def slow(self) -> None:
        client = self._some()
        if client is not None:
            client.is_slow = not client.is_slow

    def time(self) -> None:
        self.bed.advance(self.random.choice([10, 1_000, 5_000, 20_000]))

    def crash(self) -> None:
        self.bed.crash()

    def refuse(self) -> None:
        """The log takes nothing for some time."""
        self.bed.log.refusal = self.random.choice((ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.MESSAGE_TOO_LARGE))

    def heal(self) -> None:
        self.bed.log.refusal = None

    def grow(self) -> None:
        name = self.random.choice(sorted(TOPICS))
        topic_id, size = self.bed.topics.by_name[name]
        self.bed.topics.by_name[name] = (topic_id, size + 1)
        self.bed.topics.version += 1

    def check(self) -> None:
        """What the coordinator believes, at every moment."""
        self.check_log()
        group = self.bed.shard.groups.get(self.clients[0].group_id) if self.clients else None
        if group is None or not hasattr(group, "members"):
            return
        owners: dict[tuple[UUID, int], str] = {}
        for member in group.members.values():
            for assignment in (member.assigned, member.pending_revocation):
                for topic, indexes in assignment.items():
                    for index in indexes:
                        other = owners.setdefault((topic, index), member.member_id)
                        assert other == member.member_id, f"{topic}-{index}: {other} and {member.member_id}"
        assert owners == group.owners
        self._check_readers(owners)

    def check_log(self) -> None:
        """What it believes is what its log says, whatever that has refused; and it looks at topics when it has to."""
        restored = next(self.mirror).groups
        assert {each.group_id for each in restored} == {each.group_id for each in self.bed.shard.groups}
        for group in self.bed.shard.groups:
            assert isinstance(group, ConsumerGroup)
            said = restored.get(group.group_id)
            for name in REPLAYED:
                assert getattr(group, name) == getattr(said, name), f"{name} is not what the log says"
            if group.resolved_version == self.bed.topics.version:
                known = self.bed.subscriptions.hash_of(group.subscribed_names())
                assert group.metadata_hash == known, "changed topics would never be seen"
            for member_id in group.members:
                key = ConsumerTimerKey(ConsumerTimer.SESSION, group.group_id, member_id)
                assert self.bed.runtime.deadline_of(key) is not None, f"{member_id} would stay for ever"

    def _check_readers(self, owners: dict[tuple[UUID, int], str]) -> None:
        """Whoever reads a partition and is still a member in good standing is its owner.

        Except of partitions that it took up after an answer was lost which took them away: it had said that it did not
        own them. It reads them until it does what the next answer says, as with Apache Kafka.
        """
        members = self.bed.consumers.members if self.clients else {}
        for client in self.clients:
            member = members.get(client.member_id)
            if member is None or client.epoch not in (member.epoch, member.previous_epoch):
                continue
            for topic, indexes in client.owned.items():
                for index in indexes:
                    if (topic, index) in client.taken_late:
                        continue
                    assert owners.get((topic, index)) == client.member_id, f"{client.member_id} reads {topic}-{index}"

    def settle(self) -> None:
        """From now on everybody behaves: the group has to come to rest."""
        self.heal()
        for client in self.clients:
            client.is_slow = False
        for _ in range(30):
            for client in self.clients:
                client.beat()
            self.bed.advance(5_000)
        for _ in range(6):
            for client in self.clients:
                client.beat()

    def check_settled(self) -> None:
        present = [client for client in self.clients if client.epoch > 0]
        # An instance id that two clients use is one too many: the second waits for the first for ever.
        assert len(present) >= len({client.instance_id or client.member_id for client in self.clients})
        if not present:
            return
        group = self.bed.consumers
        assert group.state_name == "Stable", group.state_name
        assert all(member.state is MemberState.STABLE for member in group.members.values())
        read = [(topic, index) for client in present for topic, indexes in client.asked.items() for index in indexes]
        assert len(read) == len(set(read)), "two read the same"
        wanted = {
            (topic_id, index)
            for name in group.subscribed_names()
            for topic_id, size in [self.bed.topics.by_name[name]]
            for index in range(size)
        }
        assert set(read) == wanted, "somebody's partitions are read by nobody"


@pytest.mark.parametrize("seeds", [FOUND_SOMETHING, *seeds_of_tests("consumer_group_lives", AT_ONCE)])
def test_lives_of_consumer_groups(seeds: Iterable[int]) -> None:
    for seed in seeds:
        incarnation = Incarnation(seed)
        try:
            for _ in range(STEPS):
                incarnation.step()
            incarnation.settle()
            incarnation.check_settled()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
