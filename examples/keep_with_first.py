"""A group assignor for one worker and its stand-bys: the first member gets everything, until it is gone.

For work that must not be divided, as order over all partitions matters. Name it among those of the broker,
`group.consumer.assignors=uniform,range,keep-with-first`, and in the consumer: `group.remote.assignor=keep-with-first`.
Whoever has partitions keeps them; else static members come first, in the order of their instance ids.
"""

from collections.abc import Mapping, Sequence
from uuid import UUID

from kafkad.api import AssigningMember, Assignment, GroupAssignor, hookimpl

kafkad_requires = 1


class KeepWithFirst:
    name = "keep-with-first"

    def assign(
        self, members: Mapping[str, AssigningMember], partitions: Mapping[UUID, int]
    ) -> Mapping[str, Assignment]:
        decided: dict[str, dict[UUID, frozenset[int]]] = {}
        for topic, count in partitions.items():
            subscribers = [member for member in members.values() if topic in member.topics]
            if subscribers:
                first = min(subscribers, key=_rank)
                decided.setdefault(first.member_id, {})[topic] = frozenset(range(count))
        return dict(decided)


def _rank(member: AssigningMember) -> tuple[bool, bool, str]:
    return not member.assigned, member.instance_id is None, member.instance_id or member.member_id


@hookimpl
def kafkad_register_group_assignors() -> Sequence[GroupAssignor]:
    return [KeepWithFirst()]
