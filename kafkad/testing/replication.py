"""Suites for replica selectors and replication quotas."""

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
    def test_every_choice_is_in_sync_and_repeatable(
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

    def test_name_is_valid(self, selector: ReplicaSelector) -> None:
        assert_is_name(selector.name)


class ReplicationQuotaManagerSuite:
    """Override `manager`, and `settings` with options that limit both sides to at most 1 GB per second."""

    @pytest.fixture
    def manager(self) -> ReplicationQuotaManager:
        raise NotImplementedError("override the fixture: return a new replication quota manager")

    @pytest.fixture
    def settings(self) -> Mapping[str, str]:
        raise NotImplementedError("override the fixture: return options that limit both sides")

    @pytest.mark.parametrize("side", ReplicationSide)
    def test_without_a_limit_there_is_no_pause(self, manager: ReplicationQuotaManager, side: ReplicationSide) -> None:
        manager.configure({}, side, 3)
        manager.record(10**12, 0)
        assert manager.pause_ms(0) == 0 or not manager.is_unlimited

    @pytest.mark.parametrize("side", ReplicationSide)
    def test_replicas_over_the_quota_pause_for_a_limited_time(
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

    def test_reconfiguration_keeps_counts(self, manager: ReplicationQuotaManager, settings: Mapping[str, str]) -> None:
        manager.configure(settings, ReplicationSide.LEADER, 1)
        manager.record(10**12, 1_000)
        manager.configure(settings, ReplicationSide.LEADER, 1)
        assert manager.pause_ms(1_000) > 0, "the recorded bytes are kept"

    def test_name_is_valid(self, manager: ReplicationQuotaManager) -> None:
        assert_is_name(manager.name)
