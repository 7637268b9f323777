"""The same number of partitions for every member, with as few moves as possible: Kafka's uniform assignor (KIP-848).

Balance comes before stickiness. When all members have the same subscription the numbers differ by one at most.
Otherwise no single partition could move to a member that has two fewer, unless thousands of different subscriptions
make that too much work. Topics are numbers in here: a UUID takes a microsecond wherever it is hashed or compared.
"""

from collections.abc import Iterator, Mapping
from heapq import heapify, heappop, heappush
from uuid import UUID

from kafkad.core.groups.consumer.assignors import AssigningMember, Assignment, as_number, subscribers_of

_ROUNDS = 16
"""With partly overlapping subscriptions the last bit of balance can take many rounds; each about halves the rest."""
_LOOKS = 2_000_000
"""How often subscribers are looked at in all rounds together, some 0.1 s. Later rounds move little."""


def uniform_assignment(members: Mapping[str, AssigningMember], partitions: Mapping[UUID, int]) -> dict[str, Assignment]:
    """The target of each member."""
    topics = {member.topics for member in members.values()}
    sharing = _Distribution(members, partitions)
    if len(topics) == 1:
        sharing.keep_up_to_quota()
        sharing.hand_out()
    else:
        sharing.keep_all()
        sharing.hand_out()
        sharing.balance()
    return sharing.result()


class _Distribution:
    """An assignment that is being computed. Members are in the order of their ids, so the result is always the same.

    Members and topics are numbers in the order in which they are served.
    """

    def __init__(self, members: Mapping[str, AssigningMember], partitions: Mapping[UUID, int]) -> None:
        self._members = [members[member_id] for member_id in sorted(members)]
        subscribers = subscribers_of(self._members)
        counts = {topic.int: count for topic, count in partitions.items()}
        # Topics with the fewest subscribers first, before other topics fill up these members.
        order = sorted((-counts[topic] / len(who), len(who), topic) for topic, who in subscribers.items())
        self._numbers = {topic: number for number, (_, _, topic) in enumerate(order)}
        self._ids = [UUID(int=topic) for _, _, topic in order]
        self._subscribers = [subscribers[topic] for _, _, topic in order]
        self._free = [dict.fromkeys(range(counts[topic])) for _, _, topic in order]
        self._loads = [0] * len(self._members)
        self._held: list[dict[int, list[int]]] = [{} for _ in self._members]
        """The partitions of each member by topic; those that came last are the first to go."""
        self._owners: list[set[int]] = [set() for _ in order]
        self._looks = 0

    def _wanted(self, member: AssigningMember) -> Iterator[tuple[int, int]]:
        """The partitions that the member has and may keep, unless an earlier member has them."""
        for topic in sorted(member.assigned, key=as_number):
            number = self._numbers.get(topic.int)
            if number is not None and topic in member.topics:
                free = self._free[number]
                for index in sorted(member.assigned[topic]):
                    if index in free:
                        yield number, index

    def _take(self, member: int, topic: int, index: int) -> None:
        del self._free[topic][index]
        self._give(member, topic, index)

    def _give(self, member: int, topic: int, index: int) -> None:
        self._loads[member] += 1
        held = self._held[member].get(topic)
        if held is None:
            held = self._held[member][topic] = []
        held.append(index)
        self._owners[topic].add(member)

    def keep_all(self) -> None:
        for number, member in enumerate(self._members):
            for topic, index in list(self._wanted(member)):
                self._take(number, topic, index)

    def keep_up_to_quota(self) -> None:
        """Every member may keep the common number; one more goes to those that would lose a partition otherwise."""
        least, one_more = divmod(sum(map(len, self._free)), len(self._members))
        for number, member in enumerate(self._members):
            wanted = list(self._wanted(member))
            quota = least
            if one_more and len(wanted) > least:
                quota, one_more = least + 1, one_more - 1
            for topic, index in wanted[:quota]:
                self._take(number, topic, index)

    def hand_out(self) -> None:
        """Each free partition goes to the subscriber with the fewest."""
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
                self._take(member, topic, index)
                heappush(loads, (load + 1, member))

    def balance(self) -> None:
        """Move partitions of one topic after the other, until a whole round has moved none."""
        for _ in range(_ROUNDS):
            has_moved = False
            for topic in range(len(self._free)):
                if self._looks > _LOOKS:
                    return
                has_moved = self._balance_topic(topic) or has_moved
            if not has_moved:
                return

    def _balance_topic(self, topic: int) -> bool:
        loads, subscribers = self._loads, self._subscribers[topic]
        load_of = loads.__getitem__
        self._looks += len(subscribers)
        givers = self._owners[topic]
        if not givers or max(map(load_of, givers)) - min(map(load_of, subscribers)) <= 1:
            return False
        fullest = [(-loads[member], member) for member in givers]
        emptiest = [(loads[member], member) for member in subscribers]
        heapify(fullest)
        heapify(emptiest)
        while fullest:
            negative, giver = heappop(fullest)
            if -negative != loads[giver] or giver not in givers:
                continue
            while emptiest[0][0] != loads[emptiest[0][1]]:
                heappop(emptiest)
            load, taker = emptiest[0]
            if -negative - load <= 1:
                break
            self._move(topic, giver, taker)
            heappop(emptiest)
            for member in (giver, taker):
                heappush(emptiest, (loads[member], member))
                heappush(fullest, (-loads[member], member))
        return True

    def _move(self, topic: int, giver: int, taker: int) -> None:
        held = self._held[giver][topic]
        self._give(taker, topic, held.pop())
        self._loads[giver] -= 1
        if not held:
            del self._held[giver][topic]
            self._owners[topic].remove(giver)

    def result(self) -> dict[str, Assignment]:
        ids = self._ids
        return {
            member.member_id: {ids[topic]: frozenset(indexes) for topic, indexes in held.items()}
            for member, held in zip(self._members, self._held, strict=True)
        }
