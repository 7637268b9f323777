"""Pytest suites for the objects of a plugin: one for each kind, with everything that the broker relies on.

Inherit from a suite in a class whose name begins with `Test`, and override the fixture that says which object is
meant. kafkad's own objects and those of the examples pass the same suites. The fixtures for a whole broker are
`kafkad.pytest_plugin`'s, which pytest finds by itself.
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
    """Override `policy`, and `config` if it needs more than the defaults."""

    @pytest.fixture
    def policy(self) -> CleanupPolicy:
        raise NotImplementedError("override the fixture: return the cleanup policy")

    @pytest.fixture
    def config(self) -> LogConfig:
        return LogConfig(retention_ms=DAY_MS, retention_bytes=1_000)

    @pytest.mark.parametrize("segments", [1, 2, 5, 200])
    @pytest.mark.parametrize("high_watermark", [0, 7, 2_000])
    @pytest.mark.parametrize("age_ms", [0, 30 * DAY_MS])
    def test_what_is_planned_can_be_carried_out(
        self, policy: CleanupPolicy, config: LogConfig, segments: int, high_watermark: int, age_ms: int
    ) -> None:
        log = log_summary(*range(0, 10 * segments, 10), high_watermark=high_watermark, timestamp_ms=NOW_MS - age_ms)
        for effect in policy.plan(log, config, NOW_MS):
            assert isinstance(effect, DeleteSegments | RollActive | RewriteSegments | TransferSegments)
            assert isinstance(effect.reason, str) and effect.reason, "the log says why something went"
            if isinstance(effect, DeleteSegments | TransferSegments):
                assert effect.up_to_base_offset in [segment.base_offset for segment in log.segments]

    def test_an_empty_log_is_left_alone(self, policy: CleanupPolicy, config: LogConfig) -> None:
        assert list(policy.plan(log_summary(0, size_bytes=0, high_watermark=0), config, NOW_MS)) == []

    def test_it_is_known_by_a_name(self, policy: CleanupPolicy) -> None:
        assert_is_name(policy.name)
        assert "," not in policy.name, "cleanup.policy is a list, separated by commas"


def log_summary(
    *base_offsets: int, high_watermark: int = 10**9, timestamp_ms: int = NOW_MS, size_bytes: int = 100
) -> LogSummary:
    """A log whose segments begin at these offsets, of ten records each; nothing above its end is committed."""
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
    def test_every_answer_is_legal(
        self, strategy: LeaderElectionStrategy, reason: ElectionReason, unclean: bool
    ) -> None:
        """As in the controller, where an illegal answer ends the process."""
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

    def test_it_chooses_the_only_one_there_is(self, strategy: LeaderElectionStrategy) -> None:
        alone = BrokerId(1)
        context = ElectionContext(topic="t", partition=0)
        assert elect(strategy, assignment=[alone], isr={alone}, live={alone}, context=context) == alone

    def test_it_is_known_by_a_name(self, strategy: LeaderElectionStrategy) -> None:
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

    def test_it_answers_in_whole_milliseconds(self, limiting: QuotaManager, client: ClientIdentity) -> None:
        for now_ms in range(0, 60_000, 500):
            for record in (limiting.record_produce, limiting.record_fetch):
                for size in (0, 1, 10**6):
                    throttle_ms = record(client, size, now_ms)
                    assert isinstance(throttle_ms, int) and 0 <= throttle_ms < 2**31

    def test_a_limit_of_one_answer_is_a_size_or_none(self, limiting: QuotaManager, client: ClientIdentity) -> None:
        most = limiting.max_fetch_bytes(client)
        assert most is None or (isinstance(most, int) and most >= 0)

    def test_what_is_taken_back_was_never_fetched(self, limiting: QuotaManager, client: ClientIdentity) -> None:
        first = limiting.record_fetch(client, 10**8, 0)
        limiting.unrecord_fetch(client, 10**8, 0)
        assert limiting.record_fetch(client, 10**8, 0) == first

    def test_the_other_processes_are_told_everything_once(self, limiting: QuotaManager, client: ClientIdentity) -> None:
        limiting.record_produce(client, 700, 0)
        limiting.record_fetch(client, 500, 0)
        for told, produced, fetched in limiting.drain_local():
            assert (produced, fetched) == (700, 500)
            limiting.record_remote(told, produced, fetched, 0)
        assert limiting.drain_local() == [], "neither twice nor what came from them"

    def test_what_others_tell_counts_like_its_own(self, limiting: QuotaManager, client: ClientIdentity) -> None:
        alone = limiting.record_produce(client, 10**8, 0)
        for told, produced, fetched in limiting.drain_local():
            limiting.record_remote(told, produced, fetched, 0)
        both = limiting.record_produce(client, 0, 0)
        assert both > alone or alone == 0

    def test_it_is_known_by_a_name(self, manager: QuotaManager) -> None:
        assert_is_name(manager.name)


class RecordedHost:
    """A reporter's surroundings without a process: one snapshot, and the pages that were added."""

    def __init__(self, snapshot: MetricsSnapshot) -> None:
        self.taken = snapshot
        self.pages: dict[str, Callable[[], Page]] = {}

    def snapshot(self) -> MetricsSnapshot:
        return self.taken

    def add_page(self, path: str, render: Callable[[], Page]) -> None:
        self.pages[path] = render


class MetricsReporterSuite:
    """Override `reporter`, and `settings` with the options that it needs."""

    @pytest.fixture
    def reporter(self) -> MetricsReporter:
        raise NotImplementedError("override the fixture: return a new metrics reporter")

    @pytest.fixture
    def settings(self) -> Mapping[str, str]:
        return {}

    @pytest.fixture
    def host(self) -> RecordedHost:
        return RecordedHost(metrics_snapshot())

    def test_it_shows_metrics_from_its_start_to_its_stop(
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

    def test_it_is_known_by_a_name(self, reporter: MetricsReporter) -> None:
        assert_is_name(reporter.name)
        assert "," not in reporter.name, "kafkad.metrics.reporters is a list, separated by commas"


def metrics_snapshot() -> MetricsSnapshot:
    """A counter with labels that have to be quoted, and a gauge that has no series."""
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
    def test_every_assignment_is_legal_and_can_be_repeated(
        self, assignor: GroupAssignor, members: int, counts: tuple[int, ...]
    ) -> None:
        """As in the coordinator, where a group keeps its assignment after an illegal answer."""
        partitions = {UUID(int=number + 1): count for number, count in enumerate(counts)}
        group = {f"member-{number}": member(number, list(partitions)) for number in range(members)}
        decided = assign(assignor, group, partitions)
        assert assign(assignor, group, partitions) == decided, "it is a function of what it is given"
        for name in group:
            group[name] = member(int(name[7:]), list(partitions), decided[name])
        again = assign(assignor, group, partitions)
        del group["member-0"]
        assign(assignor, group, partitions)
        assert set(again) == set(decided)

    def test_it_is_known_by_a_name(self, assignor: GroupAssignor) -> None:
        assert_is_name(assignor.name)
        assert "," not in assignor.name, "group.consumer.assignors is a list, separated by commas"


def member(number: int, topics: list[UUID], assigned: Mapping[UUID, frozenset[int]] | None = None) -> AssigningMember:
    """Every third has an instance id, and every second reads the first topic only."""
    return AssigningMember(
        member_id=f"member-{number}",
        topics=frozenset(topics[:1] if number % 2 else topics),
        assigned=assigned or {},
        instance_id=f"instance-{number}" if number % 3 == 0 else None,
    )


def subsets(brokers: list[BrokerId]) -> Iterator[frozenset[BrokerId]]:
    return map(frozenset, chain.from_iterable(combinations(brokers, size) for size in range(len(brokers) + 1)))
