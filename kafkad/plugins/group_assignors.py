"""Kafka's two assignors for consumer groups whose broker divides the partitions (KIP-848).

The rules are `kafkad.core.groups`'s. The first of `group.consumer.assignors` is what members get who name none.
"""

from collections.abc import Mapping, Sequence
from uuid import UUID

from kafkad.api import AssigningMember, Assignment, GroupAssignor, hookimpl, range_assignment, uniform_assignment


class Uniform:
    """As many for everybody, and as few moved as that allows."""

    name = "uniform"

    def assign(
        self, members: Mapping[str, AssigningMember], partitions: Mapping[UUID, int]
    ) -> Mapping[str, Assignment]:
        return uniform_assignment(members, partitions)


class Range:
    """Neighbouring partitions, the same ones of each topic."""

    name = "range"

    def assign(
        self, members: Mapping[str, AssigningMember], partitions: Mapping[UUID, int]
    ) -> Mapping[str, Assignment]:
        return range_assignment(members, partitions)


@hookimpl(trylast=True)
def kafkad_register_group_assignors() -> Sequence[GroupAssignor]:
    return [Uniform(), Range()]
