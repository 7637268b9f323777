"""Pytest suites for the objects of plugins, one for each kind, with all requirements of the broker.

Derive a class with a name that begins with `Test` from a suite, and override the fixture with the object. The built-in
plugins and the examples pass the same suites. The fixtures with a whole broker are in `kafkad.pytest_plugin`, which
pytest finds by itself.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import chain, combinations, product
from uuid import UUID

import pytest

from kafkad.api import (
    ANONYMOUS,
    AssigningMember,
    BrokerId,
    CleanupPolicy,
    ClientIdentity,
    DeleteSegments,
    ElectionContext,
    ElectionReason,
    GroupAssignor,
    LeaderElectionStrategy,
    LogConfig,
    LogSummary,
    MetricFamily,
    MetricKind,
    MetricsReporter,
    MetricsSnapshot,
    Page,
    QuotaManager,
    RewriteSegments,
    RollActive,
    Sample,
    SegmentSummary,
    TransferSegments,
)
from kafkad.core.election import elect
from kafkad.core.groups.consumer.assignors import assign
from kafkad.pytest_plugin import BrokerDidNotStart, KafkadBroker
from kafkad.testing.names import assert_is_name
from kafkad.testing.replication import ReplicaSelectorSuite, ReplicationQuotaManagerSuite

__all__ = [
    "BrokerDidNotStart",
    "CleanupPolicySuite",
    "GroupAssignorSuite",
    "KafkadBroker",
    "LeaderElectionStrategySuite",
    "MetricsReporterSuite",
    "QuotaManagerSuite",
    "RecordedHost",
    "ReplicaSelectorSuite",
    "ReplicationQuotaManagerSuite",
    "log_summary",
]

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000


class CleanupPolicySuite:
    """Override `policy`, and `config` if the policy requires other options."""

    @pytest.fixture
    def policy(self) -> CleanupPolicy:
        raise NotImplementedError("override the fixture: return the cleanup policy")

    @pytest.fixture
    def config(self) -> LogConfig:
        return LogConfig(retention_ms=DAY_MS, retention_bytes=1_000)

    @pytest.mark.parametrize("segments", [1, 2, 5, 200])
    @pytest.mark.parametrize("high_watermark", [0, 7, 2_000])
    @pytest.mark.parametrize("age_ms", [0, 30 * DAY_MS])
    def test_planned_effects_are_valid(
        self, policy: CleanupPolicy, config: LogConfig, segments: int, high_watermark: int, age_ms: int
    ) -> None:
        log = log_summary(*range(0, 10 * segments, 10), high_watermark=high_watermark, timestamp_ms=NOW_MS - age_ms)
        for effect in policy.plan(log, config, NOW_MS):
            assert isinstance(effect, DeleteSegments | RollActive | RewriteSegments | TransferSegments)
            assert isinstance(effect.reason, str) and effect.reason, "the reason is required, because it is logged"
            if isinstance(effect, DeleteSegments | TransferSegments):
                assert effect.up_to_base_offset in [segment.base_offset for segment in log.segments]

    def test_nothing_is_planned_for_an_empty_log(self, policy: CleanupPolicy, config: LogConfig) -> None:
        assert list(policy.plan(log_summary(0, size_bytes=0, high_watermark=0), config, NOW_MS)) == []

    def test_name_is_valid(self, policy: CleanupPolicy) -> None:
        assert_is_name(policy.name)
        assert "," not in policy.name, "cleanup.policy is a list, separated by commas"


def log_summary(
    *base_offsets: int, high_watermark: int = 10**9, timestamp_ms: int = NOW_MS, size_bytes: int = 100
) -> LogSummary:
    """A log with segments at these base offsets, each with ten records; the high watermark is at most the log end."""
    end = base_offsets[-1] + (10 if size_bytes else 0)
    segments = tuple(
        SegmentSummary(
            base_offset=base,
            size_bytes=size_bytes,
            largest_timestamp_ms=timestamp_ms if size_bytes else -1,
            last_modified_ms=timestamp_ms,
            is_active=base == base_offsets[-1],
        )
        for base in base_offsets
    )
    return LogSummary(
        topic="t",
        partition=0,
        log_start_offset=base_offsets[0],
        high_watermark=min(high_watermark, end),
        log_end_offset=end,
        segments=segments,
    )


class LeaderElectionStrategySuite:
    """Override `strategy`."""

    @pytest.fixture
    def strategy(self) -> LeaderElectionStrategy:
        raise NotImplementedError("override the fixture: return the leader election strategy")

    @pytest.mark.parametrize("unclean", [False, True])
    @pytest.mark.parametrize("reason", ElectionReason)
    def test_every_result_is_valid(
        self, strategy: LeaderElectionStrategy, reason: ElectionReason, unclean: bool
    ) -> None:
        """Checked as in the controller, where an invalid result ends the process."""
        brokers = [BrokerId(1), BrokerId(2), BrokerId(3)]
        for isr, live, shutting_down in product(subsets(brokers), repeat=3):
            context = ElectionContext(
                topic="t",
                partition=0,
                reason=reason,
                unclean=unclean,
                shutting_down=shutting_down,
                racks={brokers[0]: "a", brokers[1]: "b"},
            )
            elect(strategy, assignment=brokers, isr=isr, live=live, context=context)

    def test_the_only_replica_is_elected(self, strategy: LeaderElectionStrategy) -> None:
        alone = BrokerId(1)
        context = ElectionContext(topic="t", partition=0)
        assert elect(strategy, assignment=[alone], isr={alone}, live={alone}, context=context) == alone

    def test_name_is_valid(self, strategy: LeaderElectionStrategy) -> None:
        assert_is_name(strategy.name)


class QuotaManagerSuite:
    """Override `manager`, and `settings` with options that limit `client`."""

    @pytest.fixture
    def manager(self) -> QuotaManager:
        raise NotImplementedError("override the fixture: return a new quota manager")

    @pytest.fixture
    def settings(self) -> Mapping[str, str]:
        return {}

    @pytest.fixture
    def client(self) -> ClientIdentity:
        return ClientIdentity(ANONYMOUS, "client", "192.0.2.1")

    @pytest.fixture
    def limiting(self, manager: QuotaManager, settings: Mapping[str, str]) -> QuotaManager:
        manager.configure(settings)
        return manager

    def test_it_can_be_configured_with_nothing_and_again(
        self, manager: QuotaManager, settings: Mapping[str, str]
    ) -> None:
        for each in ({}, settings, settings, {}):
            manager.configure(each)
            assert isinstance(manager.is_unlimited, bool)

    def test_throttle_time_is_in_whole_milliseconds(self, limiting: QuotaManager, client: ClientIdentity) -> None:
        for now_ms in range(0, 60_000, 500):
            for record in (limiting.record_produce, limiting.record_fetch):
                for size in (0, 1, 10**6):
                    throttle_ms = record(client, size, now_ms)
                    assert isinstance(throttle_ms, int) and 0 <= throttle_ms < 2**31

    def test_max_fetch_bytes_is_a_size_or_none(self, limiting: QuotaManager, client: ClientIdentity) -> None:
        most = limiting.max_fetch_bytes(client)
        assert most is None or (isinstance(most, int) and most >= 0)

    def test_unrecorded_bytes_do_not_count(self, limiting: QuotaManager, client: ClientIdentity) -> None:
        first = limiting.record_fetch(client, 10**8, 0)
        limiting.unrecord_fetch(client, 10**8, 0)
        assert limiting.record_fetch(client, 10**8, 0) == first

    def test_local_records_are_drained_once(self, limiting: QuotaManager, client: ClientIdentity) -> None:
        limiting.record_produce(client, 700, 0)
        limiting.record_fetch(client, 500, 0)
        for client_identity, produced, fetched in limiting.drain_local():
            assert (produced, fetched) == (700, 500)
            limiting.record_remote(client_identity, produced, fetched, 0)
        assert limiting.drain_local() == [], "each record is drained once, without remote records"

    def test_remote_records_count_like_local_ones(self, limiting: QuotaManager, client: ClientIdentity) -> None:
        alone = limiting.record_produce(client, 10**8, 0)
        for client_identity, produced, fetched in limiting.drain_local():
            limiting.record_remote(client_identity, produced, fetched, 0)
        both = limiting.record_produce(client, 0, 0)
        assert both > alone or alone == 0

    def test_name_is_valid(self, manager: QuotaManager) -> None:
        assert_is_name(manager.name)


class RecordedHost:
    """A host of reporters for tests: one snapshot, and the added pages."""

    def __init__(self, snapshot: MetricsSnapshot) -> None:
        self.taken = snapshot
        self.pages: dict[str, Callable[[], Page]] = {}

    def snapshot(self) -> MetricsSnapshot:
        return self.taken

    def add_page(self, path: str, render: Callable[[], Page]) -> None:
        self.pages[path] = render


class MetricsReporterSuite:
    """Override `reporter`, and `settings` with its options."""

    @pytest.fixture
    def reporter(self) -> MetricsReporter:
        raise NotImplementedError("override the fixture: return a new metrics reporter")

    @pytest.fixture
    def settings(self) -> Mapping[str, str]:
        return {}

    @pytest.fixture
    def host(self) -> RecordedHost:
        return RecordedHost(metrics_snapshot())

    def test_metrics_are_reported_from_start_to_stop(
        self, reporter: MetricsReporter, settings: Mapping[str, str], host: RecordedHost
    ) -> None:
        assert isinstance(reporter.is_polled, bool)
        reporter.start(settings, host)
        for snapshot in (MetricsSnapshot(taken_ms=0, families=()), host.taken, host.taken):
            if reporter.is_polled:
                reporter.report(snapshot)
            for path, render in host.pages.items():
                assert path.startswith("/") and path != "/health", "/health is the broker's"
                page = render()
                assert isinstance(page, Page) and isinstance(page.body, bytes)
        reporter.stop()

    def test_name_is_valid(self, reporter: MetricsReporter) -> None:
        assert_is_name(reporter.name)
        assert "," not in reporter.name, "kafkad.metrics.reporters is a list, separated by commas"


def metrics_snapshot() -> MetricsSnapshot:
    """A counter with labels that must be escaped, and a gauge without samples."""
    quoted = Sample(labels=(("topic", 'a"b,\\\n'), ("partition", "0")), value=7)
    counter = MetricFamily(name="messages", jmx_name="x:y=z", kind=MetricKind.COUNTER, help="", samples=(quoted,))
    gauge = MetricFamily(name="nothing", jmx_name="", kind=MetricKind.GAUGE, help="A gauge.")
    return MetricsSnapshot(taken_ms=NOW_MS, families=(counter, gauge))


class GroupAssignorSuite:
    """Override `assignor`."""

    @pytest.fixture
    def assignor(self) -> GroupAssignor:
        raise NotImplementedError("override the fixture: return the group assignor")

    @pytest.mark.parametrize("members", [1, 2, 3, 7])
    @pytest.mark.parametrize("counts", [(0,), (1,), (6,), (1, 8, 3)])
    def test_every_assignment_is_valid_and_repeatable(
        self, assignor: GroupAssignor, members: int, counts: tuple[int, ...]
    ) -> None:
        """Checked as in the coordinator, where a group keeps its assignment after an invalid result."""
        partitions = {UUID(int=number + 1): count for number, count in enumerate(counts)}
        group = {f"member-{number}": member(number, list(partitions)) for number in range(members)}
        decided = assign(assignor, group, partitions)
        assert assign(assignor, group, partitions) == decided, "the result depends on the arguments only"
        for name in group:
            group[name] = member(int(name[7:]), list(partitions), decided[name])
        again = assign(assignor, group, partitions)
        del group["member-0"]
        assign(assignor, group, partitions)
        assert set(again) == set(decided)

    def test_name_is_valid(self, assignor: GroupAssignor) -> None:
        assert_is_name(assignor.name)
        assert "," not in assignor.name, "group.consumer.assignors is a list, separated by commas"


def member(number: int, topics: list[UUID], assigned: Mapping[UUID, frozenset[int]] | None = None) -> AssigningMember:
    """A member of a group; every third has an instance id, every second is subscribed to the first topic only."""
    return AssigningMember(
        member_id=f"member-{number}",
        topics=frozenset(topics[:1] if number % 2 else topics),
        assigned=assigned or {},
        instance_id=f"instance-{number}" if number % 3 == 0 else None,
    )


def subsets(brokers: list[BrokerId]) -> Iterator[frozenset[BrokerId]]:
    return map(frozenset, chain.from_iterable(combinations(brokers, size) for size in range(len(brokers) + 1)))
