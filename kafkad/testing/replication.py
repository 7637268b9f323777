"""Suites for what concerns replicas: which one a consumer reads from, and what throttled ones may move."""

from collections.abc import Mapping

import pytest

from kafkad.api import (
    BrokerId,
    ReplicaSelector,
    ReplicationQuotaManager,
    ReplicationSide,
    ReplicaView,
    TopicPartition,
)
from kafkad.core.replica_selector import select
from kafkad.testing.names import assert_is_name


class ReplicaSelectorSuite:
    """Override `selector`."""

    @pytest.fixture
    def selector(self) -> ReplicaSelector:
        raise NotImplementedError("override the fixture: return the replica selector")

    @pytest.mark.parametrize("rack_id", ["", "a", "b", "elsewhere"])
    @pytest.mark.parametrize("racks", [("a",), (None, None), ("a", "b", "b"), ("b", None, "a", "b")])
    def test_every_choice_has_an_in_sync_replica_and_can_be_repeated(
        self, selector: ReplicaSelector, rack_id: str, racks: tuple[str | None, ...]
    ) -> None:
        partition = TopicPartition("topic", 3)
        for leader in range(len(racks)):
            replicas = [
                ReplicaView(broker_id=BrokerId(number), rack=rack, is_leader=number == leader)
                for number, rack in enumerate(racks)
            ]
            chosen = select(selector, partition, rack_id, replicas)
            assert chosen is None or chosen != leader
            assert select(selector, partition, rack_id, replicas) == chosen

    def test_it_is_known_by_a_name(self, selector: ReplicaSelector) -> None:
        assert_is_name(selector.name)


class ReplicationQuotaManagerSuite:
    """Override `manager`, and `settings` with options that limit both sides to no more than 1 GB a second."""

    @pytest.fixture
    def manager(self) -> ReplicationQuotaManager:
        raise NotImplementedError("override the fixture: return a new replication quota manager")

    @pytest.fixture
    def settings(self) -> Mapping[str, str]:
        raise NotImplementedError("override the fixture: return options that limit both sides")

    @pytest.mark.parametrize("side", ReplicationSide)
    def test_without_a_limit_nobody_waits(self, manager: ReplicationQuotaManager, side: ReplicationSide) -> None:
        manager.configure({}, side, 3)
        manager.record(10**12, 0)
        assert manager.pause_ms(0) == 0 or not manager.is_unlimited

    @pytest.mark.parametrize("side", ReplicationSide)
    def test_who_has_moved_too_much_waits_and_goes_on_some_time(
        self, manager: ReplicationQuotaManager, settings: Mapping[str, str], side: ReplicationSide
    ) -> None:
        manager.configure(settings, side, 1)
        assert not manager.is_unlimited
        assert manager.pause_ms(1_000) == 0, "nothing was moved yet"
        manager.record(10**12, 1_000)
        now_ms = 1_000
        assert manager.pause_ms(now_ms) > 0
        while (pause_ms := manager.pause_ms(now_ms)) > 0:
            assert isinstance(pause_ms, int)
            now_ms += pause_ms
            assert now_ms < 86_400_000

    def test_it_can_be_configured_again(self, manager: ReplicationQuotaManager, settings: Mapping[str, str]) -> None:
        manager.configure(settings, ReplicationSide.LEADER, 1)
        manager.record(10**12, 1_000)
        manager.configure(settings, ReplicationSide.LEADER, 1)
        assert manager.pause_ms(1_000) > 0, "counts are kept"

    def test_it_is_known_by_a_name(self, manager: ReplicationQuotaManager) -> None:
        assert_is_name(manager.name)
