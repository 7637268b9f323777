"""Thousands of random runs of a classic group: whatever its members, coordinator and log do, the rules hold.

After every event: no request is answered twice, one leader assigns a generation, a partition has one owner in it, the
group's counters agree with its members, and there is a timer for every member that the group waits for. After a time
without faults the group is stable, all its members have all partitions, and no request waits. The seeds that found
something are fixed, the others random: `classic_group_lives`.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from random import Random

import pytest

from kafkad.core.errors import ErrorCode
from kafkad.core.groups.classic.group import ClassicGroup
from kafkad.core.groups.classic.records import group_record
from kafkad.core.groups.classic.state import ClassicState
from kafkad.core.groups.classic.timers import ClassicTimerKey, join_key, session_key, sync_key
from kafkad.core.groups.records import GroupMetadata
from tests.amounts import seeds_of_tests
from tests.core.groups.classic_bed import GROUP
from tests.core.groups.classic_clients import PARTITIONS, Client, Doing, WatchedBed

AT_ONCE = 50
FOUND_SOMETHING = (856645406,)
EVENTS = 100
LONG_ENOUGH_MS = 120_000


class World:
    """One seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.bed = WatchedBed(
            initial_rebalance_delay_ms=self.random.choice((0, 500, 3_000)),
            new_member_join_timeout_ms=15_000,
        )
        self.clients: list[Client] = []
        self.named = 0

    def run(self) -> None:
        events: list[tuple[int, Callable[[], None]]] = [
            (40, self.step_some),
            (20, self.pass_time),
            (6, self.arrive),
            (3, lambda: self.anybody().leave()),
            (2, lambda: self.anybody().vanish()),
            (4, lambda: self.anybody().change()),
            (3, self.restart_static),
            (2, lambda: self.anybody().repeat()),
            (2, self.crash),
            (1, self.resign),
            (2, self.bed.log.lag),
            (3, self.heal),
            (1, self.refuse_appends),
        ]
        weights = [weight for weight, _ in events]
        for _ in range(self.random.randrange(1, 4)):
            self.arrive()
        for _ in range(EVENTS):
            (_, event), *_ = self.random.choices(events, weights)
            event()
            self.check()
        self.settle()

    # Events.

    def anybody(self) -> Client:
        return self.random.choice(self.clients)

    def step_some(self) -> None:
        for client in self.clients:
            if self.random.random() < 0.6:
                client.step()

    def pass_time(self) -> None:
        self.bed.advance(self.random.choice((1, 100, 700, 2_500, 6_000)))

    def arrive(self) -> None:
        if sum(client.doing is not Doing.GONE for client in self.clients) >= 6:
            return
        self.named += 1
        is_static = self.random.random() < 0.4
        self.clients.append(Client(self.bed, self.random, f"c{self.named}", is_static=is_static))

    def restart_static(self) -> None:
        """Killed and started again; sometimes the old process lives on beside it."""
        client = self.anybody()
        if client.instance_id is None:
            return
        if self.random.random() < 0.3 and client.doing is not Doing.GONE:
            self.clients.append(Client(self.bed, self.random, client.name, is_static=True))
        else:
            client.restart()

    def crash(self) -> None:
        self.bed.crash()
        self.check_restored()

    def resign(self) -> None:
        self.bed.resign()
        assert self.bed.unanswered() == []
        self.bed.start()
        self.check_restored()

    def refuse_appends(self) -> None:
        self.bed.log.refusal = self.random.choice((ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.MESSAGE_TOO_LARGE))

    def heal(self) -> None:
        self.bed.log.refusal = None
        self.bed.log.is_lagging = False
        self.bed.replicate()

    def settle(self) -> None:
        """Nothing goes wrong any more, and whoever is there does what it should."""
        self.heal()
        until = self.bed.moment.monotonic_ms + LONG_ENOUGH_MS
        while not self.is_settled() and self.bed.moment.monotonic_ms < until:
            self.bed.advance(500)
            for client in self.clients:
                client.step()
            self.check()
        assert self.is_settled(), self.describe()
        assert self.bed.unanswered() == []

    # What must hold.

    @property
    def group(self) -> ClassicGroup | None:
        group = self.bed.shard.groups.get(GROUP)
        assert group is None or isinstance(group, ClassicGroup)
        return group

    def is_settled(self) -> bool:
        here = [client for client in self.clients if client.doing is not Doing.GONE]
        group = self.group
        if group is None or not here:
            return not here and (group is None or group.state is ClassicState.EMPTY)
        owned = sorted(partition for client in here for partition in client.assignment)
        return (
            group.state is ClassicState.STABLE
            and all(client.is_settled and client.generation == group.generation for client in here)
            and group.members.keys() == {client.member_id for client in here}
            and owned == list(range(PARTITIONS))
        )

    def check(self) -> None:
        group = self.group
        if group is None:
            return
        members = group.members.values()
        assert group.awaiting_join == sum(member.join_token is not None for member in members)
        assert group._members_by_protocol == Counter(name for member in members for name, _ in member.protocols)
        assert group._static == {each.instance_id: each.member_id for each in members if each.instance_id is not None}
        assert group.leader in group.members if members else group.leader is None
        assert not group.pending_join & group.members.keys()
        assert group.pending_sync <= group.members.keys()
        self.check_timers(group)

    def check_timers(self, group: ClassicGroup) -> None:
        for member in group.members.values():
            assert member.keeps_session or self.has(session_key(GROUP, member.member_id)), member.member_id
        assert all(self.has(session_key(GROUP, member_id)) for member_id in group.pending_join)
        if group.state is ClassicState.PREPARING_REBALANCE:
            assert self.has(join_key(GROUP))
        if group.state is ClassicState.COMPLETING_REBALANCE and group.pending_sync:
            assert self.has(sync_key(GROUP))

    def has(self, key: ClassicTimerKey) -> bool:
        return self.bed.runtime.deadline_of(key) is not None

    def check_restored(self) -> None:
        """After a restart the group is what its last record says."""
        words = [each for each in self.bed.written() if getattr(each, "group_id", None) == GROUP]
        group = self.group
        if not words:
            assert group is None
            return
        last = words[-1]
        assert isinstance(last, GroupMetadata) and group is not None
        assert group_record(group) == last

    def describe(self) -> str:
        group = self.group
        clients = ", ".join(f"{each.name}/{each.member_id} {each.doing.value}" for each in self.clients)
        if group is None:
            return f"no group; {clients}"
        waiting = f"{group.awaiting_join} joining, pending {group.pending_join}, to sync {group.pending_sync}"
        return f"{group.state_name} {group.generation}, members {list(group.members)}, {waiting}; {clients}"


@pytest.mark.parametrize("seeds", [FOUND_SOMETHING, *seeds_of_tests("classic_group_lives", AT_ONCE)])
def test_group_keeps_its_rules_and_is_never_stuck(seeds: Iterable[int]) -> None:
    for seed in seeds:
        try:
            World(seed).run()
        except (AssertionError, RuntimeError) as error:
            raise AssertionError(f"seed {seed}: {error}") from error
