"""The same number of partitions for every member, with as few moves as possible: Kafka's uniform assignor (KIP-848).

Balance comes before stickiness. When all members have the same subscription the numbers differ by one at most.
Otherwise no single partition could move to a member that has two fewer.
"""

from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from uuid import UUID

from kafkad.core.groups.consumer.assignors import AssigningMember, Assignment

Place = tuple[UUID, int]

_ROUNDS = 16
"""With partly overlapping subscriptions the last bit of balance can take many rounds; each about halves the rest."""


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
    return {member_id: _by_topic(places) for member_id, places in sharing.target.items()}


class _Distribution:
    """An assignment that is being computed. Members are in the order of their ids, so the result is always the same."""

    def __init__(self, members: Mapping[str, AssigningMember], partitions: Mapping[UUID, int]) -> None:
        self._members = [members[member_id] for member_id in sorted(members)]
        self._partitions = partitions
        self.target: dict[str, dict[Place, None]] = {member.member_id: {} for member in self._members}
        self._free: dict[Place, None] = {}
        self._subscribers = _subscribers(self._members)
        # Topics with the fewest subscribers first, before other topics fill up these members.
        self._topics = sorted(self._subscribers, key=self._choices)
        for topic in self._topics:
            for index in range(partitions[topic]):
                self._free[topic, index] = None

    def _choices(self, topic: UUID) -> tuple[float, int, UUID]:
        subscribers = len(self._subscribers[topic])
        return -self._partitions[topic] / subscribers, subscribers, topic

    def _wanted(self, member: AssigningMember) -> Iterable[Place]:
        """The partitions that the member has and may keep, unless an earlier member has them."""
        for topic in sorted(member.assigned):
            if topic in member.topics:
                for index in sorted(member.assigned[topic]):
                    if (topic, index) in self._free:
                        yield topic, index

    def _take(self, member_id: str, place: Place) -> None:
        del self._free[place]
        self.target[member_id][place] = None

    def keep_all(self) -> None:
        for member in self._members:
            for place in list(self._wanted(member)):
                self._take(member.member_id, place)

    def keep_up_to_quota(self) -> None:
        """Every member may keep the common number; one more goes to those that would lose a partition otherwise."""
        least, one_more = divmod(len(self._free), len(self._members))
        for member in self._members:
            wanted = list(self._wanted(member))
            quota = least
            if one_more and len(wanted) > least:
                quota, one_more = least + 1, one_more - 1
            for place in wanted[:quota]:
                self._take(member.member_id, place)

    def hand_out(self) -> None:
        """Each free partition goes to the subscriber with the fewest."""
        subscribers: list[str] = []
        loads: list[tuple[int, str]] = []
        for topic in self._topics:
            free = [(topic, index) for index in range(self._partitions[topic]) if (topic, index) in self._free]
            if not free:
                continue
            if self._subscribers[topic] is not subscribers:
                subscribers = self._subscribers[topic]
                loads = [(len(self.target[member_id]), member_id) for member_id in subscribers]
                heapify(loads)
            for place in free:
                load, member_id = heappop(loads)
                self._take(member_id, place)
                heappush(loads, (load + 1, member_id))

    def balance(self) -> None:
        """Move partitions of one topic after the other, until a whole round has moved none."""
        for _ in range(_ROUNDS):
            if not sum(map(self._balance_topic, self._topics)):
                return

    def _balance_topic(self, topic: UUID) -> bool:
        subscribers = self._subscribers[topic]
        own = {member_id: [place for place in self.target[member_id] if place[0] == topic] for member_id in subscribers}
        fullest = [(-len(self.target[member_id]), member_id) for member_id in subscribers if own[member_id]]
        emptiest = [(len(self.target[member_id]), member_id) for member_id in subscribers]
        heapify(fullest)
        heapify(emptiest)
        has_moved = False
        while fullest:
            negative, giver = heappop(fullest)
            if -negative != len(self.target[giver]) or not own[giver]:
                continue
            load, taker = self._emptiest(emptiest)
            if -negative - load <= 1:
                break
            place = own[giver].pop()
            del self.target[giver][place]
            self.target[taker][place] = None
            heappop(emptiest)
            for member_id in (giver, taker):
                heappush(emptiest, (len(self.target[member_id]), member_id))
            heappush(fullest, (-len(self.target[giver]), giver))
            own[taker].append(place)
            heappush(fullest, (-len(self.target[taker]), taker))
            has_moved = True
        return has_moved

    def _emptiest(self, emptiest: list[tuple[int, str]]) -> tuple[int, str]:
        while emptiest[0][0] != len(self.target[emptiest[0][1]]):
            heappop(emptiest)
        return emptiest[0]


def _subscribers(members: Sequence[AssigningMember]) -> dict[UUID, list[str]]:
    """The subscribers of each topic. If all members have the same topics they are one list for all topics."""
    if members and all(member.topics == members[0].topics for member in members):
        everybody = [member.member_id for member in members]
        return dict.fromkeys(members[0].topics, everybody)
    subscribers: dict[UUID, list[str]] = {}
    for member in members:
        for topic in member.topics:
            subscribers.setdefault(topic, []).append(member.member_id)
    return subscribers


def _by_topic(places: Iterable[Place]) -> Assignment:
    topics: dict[UUID, set[int]] = {}
    for topic, index in places:
        topics.setdefault(topic, set()).add(index)
    return {topic: frozenset(indexes) for topic, indexes in topics.items()}
