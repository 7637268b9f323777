"""A selector's choice is checked: it may name any in-sync replica, and the leader is nowhere else."""

from collections.abc import Sequence

import pytest

from kafkad.core.replica_selector import IllegalSelection, ReplicaView, select
from kafkad.core.types import BrokerId, TopicPartition

REPLICAS = [ReplicaView(broker_id=BrokerId(number), rack=None, is_leader=number == 2) for number in (1, 2)]


class Fixed:
    name = "fixed"

    def __init__(self, choice: int | None) -> None:
        self._choice = choice

    def select(self, partition: TopicPartition, rack_id: str, replicas: Sequence[ReplicaView]) -> BrokerId | None:
        return None if self._choice is None else BrokerId(self._choice)


@pytest.mark.parametrize(("choice", "expected"), [(None, None), (1, 1), (2, None)])
def test_a_consumer_is_sent_to_a_follower_or_stays(choice: int | None, expected: int | None) -> None:
    assert select(Fixed(choice), TopicPartition("t", 0), "", REPLICAS) == expected


def test_who_is_not_in_sync_can_t_be_chosen() -> None:
    with pytest.raises(IllegalSelection, match=r"selector 'fixed' chose 3 for t-0: expected one of \[1, 2\] or None"):
        select(Fixed(3), TopicPartition("t", 0), "", REPLICAS)
