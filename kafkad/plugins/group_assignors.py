"""Kafka's two server-side assignors for consumer groups (KIP-848).

The algorithms are in `kafkad.core.groups`. Members without an assignor get the first of `group.consumer.assignors`.
"""

from collections.abc import Mapping, Sequence
from uuid import UUID

from kafkad.api import AssigningMember, Assignment, GroupAssignor, hookimpl, range_assignment, uniform_assignment


class Uniform:
    """Assigns all members equally many partitions, and moves as few partitions as possible."""

    name = "uniform"

    def assign(
        self, members: Mapping[str, AssigningMember], partitions: Mapping[UUID, int]
    ) -> Mapping[str, Assignment]:
        return uniform_assignment(members, partitions)


class Range:
    """Assigns each member a range of partitions, the same of each topic."""

    name = "range"

    def assign(
        self, members: Mapping[str, AssigningMember], partitions: Mapping[UUID, int]
    ) -> Mapping[str, Assignment]:
        return range_assignment(members, partitions)


@hookimpl(trylast=True)
def kafkad_register_group_assignors() -> Sequence[GroupAssignor]:
    return [Uniform(), Range()]
