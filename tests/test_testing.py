"""The suites of `kafkad.testing`: the built-in objects and those of all examples pass them, wrong ones do not."""

import ast
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest

from bench.brokers.processes import WITHIN_S
from kafkad.api import LogConfig, ReplicationSide
from kafkad.plugin_discovery import in_folder
from kafkad.plugin_loading import load
from kafkad.plugins.client_quotas import ClientIdQuotas
from kafkad.plugins.compaction import Compaction
from kafkad.plugins.group_assignors import Range, Uniform
from kafkad.plugins.leader_election import PreferredReplica
from kafkad.plugins.prometheus import Prometheus
from kafkad.plugins.replica_selectors import LeaderSelector, RackAwareReplicaSelector
from kafkad.plugins.replication_quota import ThrottledRate
from kafkad.plugins.retention import Retention
from kafkad.plugins.retention_after_export import RetentionAfterExport
from kafkad.testing import (
    CleanupPolicySuite,
    GroupAssignorSuite,
    LeaderElectionStrategySuite,
    MetricsReporterSuite,
    QuotaManagerSuite,
    ReplicaSelectorSuite,
    ReplicationQuotaManagerSuite,
)

ROOT = Path(__file__).parents[1]
SUITES = (
    CleanupPolicySuite,
    LeaderElectionStrategySuite,
    QuotaManagerSuite,
    MetricsReporterSuite,
    GroupAssignorSuite,
    ReplicaSelectorSuite,
    ReplicationQuotaManagerSuite,
)


def example(name: str, folder: str = "") -> Any:
    (found,) = [plugin for plugin in in_folder(str(ROOT / "examples" / folder)) if plugin.name == name]
    module = found.load()
    assert isinstance(module, ModuleType)
    return module


class TestRetention(CleanupPolicySuite):
    @pytest.fixture
    def policy(self) -> Retention:
        return Retention()


class TestCompaction(CleanupPolicySuite):
    @pytest.fixture
    def policy(self) -> Compaction:
        return Compaction()


class TestLeaderSelector(ReplicaSelectorSuite):
    @pytest.fixture
    def selector(self) -> LeaderSelector:
        return LeaderSelector()


class TestRackAwareReplicaSelector(ReplicaSelectorSuite):
    @pytest.fixture
    def selector(self) -> RackAwareReplicaSelector:
        return RackAwareReplicaSelector()


class TestThrottledRate(ReplicationQuotaManagerSuite):
    @pytest.fixture
    def manager(self) -> ThrottledRate:
        return ThrottledRate()

    @pytest.fixture
    def settings(self) -> dict[str, str]:
        return {f"{side.value}.replication.throttled.rate": "1000000000" for side in ReplicationSide}


class TestKeepNewest(CleanupPolicySuite):
    plugin: ClassVar[Any] = example("keep_newest_segments", "keep_newest_segments")

    @pytest.fixture
    def policy(self) -> Any:
        return self.plugin.KeepNewest()

    @pytest.fixture
    def config(self) -> LogConfig:
        (config,) = self.plugin.kafkad_register_topic_configs(settings={})
        return LogConfig(plugin_configs={config.name: config.default})


class TestRetentionAfterExport(CleanupPolicySuite):
    @pytest.fixture
    def policy(self) -> RetentionAfterExport:
        return RetentionAfterExport()


class TestPreferredReplica(LeaderElectionStrategySuite):
    @pytest.fixture
    def strategy(self) -> PreferredReplica:
        return PreferredReplica()


class TestRackOrLastReplica(LeaderElectionStrategySuite):
    @pytest.fixture
    def strategy(self) -> Any:
        return example("rack_election", "rack_election").RackOrLastReplica()


class TestClientIdQuotas(QuotaManagerSuite):
    @pytest.fixture
    def manager(self) -> ClientIdQuotas:
        return ClientIdQuotas()

    @pytest.fixture
    def settings(self) -> Mapping[str, str]:
        return dict.fromkeys(
            ("kafkad.quota.producer.byte.rate.default", "kafkad.quota.consumer.byte.rate.default"), "100"
        )


class TestPrefixQuotas(QuotaManagerSuite):
    @pytest.fixture
    def manager(self) -> Any:
        return example("quota_by_prefix").PrefixQuotas()

    @pytest.fixture
    def settings(self) -> Mapping[str, str]:
        return {"kafkad.plugin.quota.prefix.client": "100"}


class TestPrometheus(MetricsReporterSuite):
    @pytest.fixture
    def reporter(self) -> Prometheus:
        return Prometheus()


class TestCsvReporter(MetricsReporterSuite):
    @pytest.fixture
    def reporter(self) -> Any:
        return example("csv_metrics").CsvReporter()

    @pytest.fixture
    def settings(self, tmp_path: Path) -> Mapping[str, str]:
        return {"kafka.csv.metrics.dir": str(tmp_path)}


class TestUniform(GroupAssignorSuite):
    @pytest.fixture
    def assignor(self) -> Uniform:
        return Uniform()


class TestRange(GroupAssignorSuite):
    @pytest.fixture
    def assignor(self) -> Range:
        return Range()


class TestKeepWithFirst(GroupAssignorSuite):
    @pytest.fixture
    def assignor(self) -> Any:
        return example("keep_with_first").KeepWithFirst()


def test_every_object_of_ours_and_of_the_examples_is_put_through_a_suite() -> None:
    kinds = [found for plugin in load(enabled=False).loaded for found in plugin.objects]
    kinds += [
        found
        for folder in ("", "keep_newest_segments", "rack_election")
        for plugin in load(directory=str(ROOT / "examples" / folder)).loaded
        if plugin.source != "built in"
        for found in plugin.objects
        if found.kind != "topic config"
    ]
    put_through = [each for suite in SUITES for each in suite.__subclasses__() if each.__module__ == __name__]
    assert len(put_through) == len(kinds)


WRONG = """
import pytest
from kafkad.api import DeleteSegments
from kafkad.testing import CleanupPolicySuite, LeaderElectionStrategySuite, QuotaManagerSuite
from kafkad.testing import GroupAssignorSuite, MetricsReporterSuite

class Wrong:
    name = "wrong"
    is_unlimited = is_polled = False
    def plan(self, log, config, now_ms):
        return [DeleteSegments(up_to_base_offset=5, reason="")]
    def elect(self, assignment, isr, live, context):
        return assignment[0]
    def assign(self, members, partitions):
        return {member: {topic: {0} for topic in partitions} for member in members}
    def start(self, settings, host):
        host.add_page("/health", lambda: "fine")
    def configure(self, settings):
        pass
    def record_produce(self, client, size, now_ms):
        return 1.5
    record_fetch = record_produce

class TestPolicy(CleanupPolicySuite):
    policy = pytest.fixture(lambda self: Wrong())

class TestStrategy(LeaderElectionStrategySuite):
    strategy = pytest.fixture(lambda self: Wrong())

class TestManager(QuotaManagerSuite):
    manager = pytest.fixture(lambda self: Wrong())

class TestReporter(MetricsReporterSuite):
    reporter = pytest.fixture(lambda self: Wrong())

class TestAssignor(GroupAssignorSuite):
    assignor = pytest.fixture(lambda self: Wrong())

class TestForgotten(GroupAssignorSuite):
    pass
"""


@pytest.fixture(scope="module")
def of_wrong_ones(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What pytest prints for objects that are wrong."""
    file = tmp_path_factory.mktemp("wrong") / "test_wrong.py"
    file.write_text(WRONG)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rfE", str(file)]
    done = subprocess.run(command, cwd=file.parent, capture_output=True, text=True, timeout=WITHIN_S)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "line",
    [
        "the reason is required, because it is logged",
        "IllegalElection: strategy 'wrong' elected",
        "isinstance(1.5, int)",
        "/health is the broker's",
        "assignor 'wrong' assigned",
        "override the fixture: return the group assignor",
        "ERROR test_wrong.py::TestForgotten::",
        *(f"FAILED test_wrong.py::Test{name}::" for name in ("Policy", "Strategy", "Manager", "Reporter", "Assignor")),
    ],
)
def test_wrong_objects_fail_and_are_told_what_is_expected(line: str, of_wrong_ones: str) -> None:
    assert line in of_wrong_ones


def test_pytest_is_imported_by_what_is_for_tests_only() -> None:
    importing = {
        str(path.relative_to(ROOT / "kafkad"))
        for path in (ROOT / "kafkad").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import) and "pytest" in {alias.name for alias in node.names}
    }
    assert importing == {"pytest_plugin.py", "testing/__init__.py", "testing/replication.py"}
