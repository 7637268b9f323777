"""The same number of partitions for every member, with as few moves as possible: Kafka's uniform assignor (KIP-848).

Balance comes before stickiness. If all members have the same subscription, the numbers differ by at most one.
Otherwise no move of one partition to a member with two fewer is possible, unless thousands of different subscriptions
make that too much work. Topics are numbers here: hashing or comparing a UUID takes a microsecond.
"""

from collections.abc import Iterator, Mapping
from heapq import heapify, heappop, heappush
from uuid import UUID

from kafkad.core.groups.consumer.assignors import AssigningMember, Assignment, as_number, subscribers_of

_MAX_ROUNDS = 16
"""With partly overlapping subscriptions full balance can take many rounds; each about halves the difference."""
_MAX_VISITS = 2_000_000
"""Maximum visits of subscribers in all rounds together, some 0.1 s. Later rounds move few partitions."""


def uniform_assignment(members: Mapping[str, AssigningMember], partitions: Mapping[UUID, int]) -> dict[str, Assignment]:
    """The target assignment of each member."""
    topics = {member.topics for member in members.values()}
    distribution = _Distribution(members, partitions)
    if len(topics) == 1:
        distribution.keep_up_to_quota()
        distribution.assign_free()
    else:
        distribution.keep_all()
        distribution.assign_free()
        distribution.balance()
    return distribution.result()


class _Distribution:
    """An assignment in progress. Members are in the order of their ids, so the result is deterministic.

    Members and topics are numbers in the order of processing.
    """

    def __init__(self, members: Mapping[str, AssigningMember], partitions: Mapping[UUID, int]) -> None:
        self._members = [members[member_id] for member_id in sorted(members)]
        subscribers = subscribers_of(self._members)
        counts = {topic.int: count for topic, count in partitions.items()}
        # Topics with few subscribers first, before these members get other topics.
        order = sorted(
            (-counts[topic] / len(positions), len(positions), topic) for topic, positions in subscribers.items()
        )
        self._numbers = {topic: number for number, (_, _, topic) in enumerate(order)}
        self._ids = [UUID(int=topic) for _, _, topic in order]
        self._subscribers = [subscribers[topic] for _, _, topic in order]
        self._free = [dict.fromkeys(range(counts[topic])) for _, _, topic in order]
        self._loads = [0] * len(self._members)
        self._assigned: list[dict[int, list[int]]] = [{} for _ in self._members]
        """The partitions of each member by topic; the last assigned ones are moved first."""
        self._owners: list[set[int]] = [set() for _ in order]
        self._visits = 0

    def _keepable(self, member: AssigningMember) -> Iterator[tuple[int, int]]:
        """The partitions that the member has and may keep, unless an earlier member has them."""
        for topic in sorted(member.assigned, key=as_number):
            number = self._numbers.get(topic.int)
            if number is not None and topic in member.topics:
                free = self._free[number]
                for index in sorted(member.assigned[topic]):
                    if index in free:
                        yield number, index

    def _assign_free_partition(self, member: int, topic: int, index: int) -> None:
        del self._free[topic][index]
        self._assign(member, topic, index)

    def _assign(self, member: int, topic: int, index: int) -> None:
        self._loads[member] += 1
        indexes = self._assigned[member].get(topic)
        if indexes is None:
            indexes = self._assigned[member][topic] = []
        indexes.append(index)
        self._owners[topic].add(member)

    def keep_all(self) -> None:
        for number, member in enumerate(self._members):
            for topic, index in list(self._keepable(member)):
                self._assign_free_partition(number, topic, index)

    def keep_up_to_quota(self) -> None:
        """Every member keeps up to the quota; some members with more partitions keep one more."""
        base_quota, one_more = divmod(sum(map(len, self._free)), len(self._members))
        for number, member in enumerate(self._members):
            keepable = list(self._keepable(member))
            quota = base_quota
            if one_more and len(keepable) > base_quota:
                quota, one_more = base_quota + 1, one_more - 1
            for topic, index in keepable[:quota]:
                self._assign_free_partition(number, topic, index)

    def assign_free(self) -> None:
        """Assign each free partition to the subscriber with the fewest partitions."""
        subscribers: list[int] = []
        loads: list[tuple[int, int]] = []
        for topic, free in enumerate(self._free):
            if not free:
                continue
            if self._subscribers[topic] is not subscribers:
                subscribers = self._subscribers[topic]
                loads = [(self._loads[member], member) for member in subscribers]
                heapify(loads)
            for index in list(free):
                load, member = heappop(loads)
                self._assign_free_partition(member, topic, index)
                heappush(loads, (load + 1, member))

    def balance(self) -> None:
        """Move partitions topic by topic, until a whole round has moved none."""
        for _ in range(_MAX_ROUNDS):
            has_moved = False
            for topic in range(len(self._free)):
                if self._visits > _MAX_VISITS:
                    return
                has_moved = self._balance_topic(topic) or has_moved
            if not has_moved:
                return

    def _balance_topic(self, topic: int) -> bool:
        loads, subscribers = self._loads, self._subscribers[topic]
        load_of = loads.__getitem__
        self._visits += len(subscribers)
        owners = self._owners[topic]
        if not owners or max(map(load_of, owners)) - min(map(load_of, subscribers)) <= 1:
            return False
        fullest = [(-loads[member], member) for member in owners]
        emptiest = [(loads[member], member) for member in subscribers]
        heapify(fullest)
        heapify(emptiest)
        while fullest:
            negative, source = heappop(fullest)
            if -negative != loads[source] or source not in owners:
                continue
            while emptiest[0][0] != loads[emptiest[0][1]]:
                heappop(emptiest)
            load, destination = emptiest[0]
            if -negative - load <= 1:
                break
            self._move(topic, source, destination)
            heappop(emptiest)
            for member in (source, destination):
                heappush(emptiest, (loads[member], member))
                heappush(fullest, (-loads[member], member))
        return True

    def _move(self, topic: int, source: int, destination: int) -> None:
        indexes = self._assigned[source][topic]
        self._assign(destination, topic, indexes.pop())
        self._loads[source] -= 1
        if not indexes:
            del self._assigned[source][topic]
            self._owners[topic].remove(source)

    def result(self) -> dict[str, Assignment]:
        ids = self._ids
        return {
            member.member_id: {ids[topic]: frozenset(indexes) for topic, indexes in assigned.items()}
            for member, assigned in zip(self._members, self._assigned, strict=True)
        }
