"""Each example plugin is installed as its README says, is loaded, and does what it promises."""

import csv
import os
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from uuid import UUID

import pytest

from bench.brokers.processes import WITHIN_S
from kafkad.core.cleanup import DeleteSegments, LogSummary, RollActive, SealedSegment, SegmentSummary, TransferSegments
from kafkad.core.election import ElectionContext, elect
from kafkad.core.groups.consumer.assignors import AssigningMember, assign
from kafkad.core.log.settings import LogConfig
from kafkad.core.metrics.metric import MetricFamily, MetricKind, MetricsReporter, MetricsSnapshot, ReporterHost, Sample
from kafkad.core.types import BrokerId
from kafkad.plugin_loading import Plugins, load
from kafkad.testing import RecordedHost
from tests.contexts import a_client

EXAMPLES = Path(__file__).parents[2] / "examples"


def install(example: str, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> Plugins:
    """pip install a copy (building writes beside the sources), then load as a start of the broker does."""
    sources = shutil.copytree(EXAMPLES / example, scratch / "sources")
    target = scratch / "site"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--no-index", "--target", target, sources], check=True, timeout=WITHIN_S)
    monkeypatch.syspath_prepend(target)
    return load()


def copy_to_folder(example: str, folder: Path) -> Plugins:
    shutil.copy(EXAMPLES / example, folder)
    return load(directory=str(folder))


def log_of(*base_offsets: int, high_watermark: int) -> LogSummary:
    segments = tuple(
        SegmentSummary(
            base_offset=base,
            size_bytes=100,
            largest_timestamp_ms=0,
            last_modified_ms=0,
            is_active=base == base_offsets[-1],
        )
        for base in base_offsets
    )
    return LogSummary(
        topic="t",
        partition=0,
        log_start_offset=0,
        high_watermark=high_watermark,
        log_end_offset=base_offsets[-1] + 10,
        segments=segments,
    )


def test_keep_newest_segments_keeps_the_newest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugins = install("keep_newest_segments", tmp_path, monkeypatch)
    policy = plugins.cleanup_policies["keep-newest"]
    segments = "kafkad.plugin.keep.newest.segments"
    assert plugins.topic_configs[segments].default == 3
    config = LogConfig(plugin_configs={segments: 3})
    five = log_of(0, 10, 20, 30, 40, high_watermark=50)
    assert policy.plan(five, config, 0) == [DeleteSegments(up_to_base_offset=10, reason=f"{segments}=3")]
    assert policy.plan(log_of(0, 10, 20, high_watermark=30), config, 0) == []
    uncommitted = log_of(0, 10, 20, 30, 40, high_watermark=15)
    assert policy.plan(uncommitted, config, 0) == [DeleteSegments(up_to_base_offset=0, reason=f"{segments}=3")]


def test_rack_election_prefers_the_rack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    strategy = install("rack_election", tmp_path, monkeypatch).leader_election_strategies["rack-or-last-replica"]
    one, two, three = BrokerId(1), BrokerId(2), BrokerId(3)
    everyone = frozenset({one, two, three})

    def elected(live: frozenset[BrokerId], racks: dict[BrokerId, str]) -> BrokerId | None:
        context = ElectionContext(topic="t", partition=0, racks=racks)
        return elect(strategy, assignment=[one, two, three], isr=everyone, live=live, context=context)

    assert elected(everyone, {two: "main"}) == two
    assert elected(everyone, {}) == three
    assert elected(frozenset({one}), {two: "main"}) == one
    assert elected(frozenset(), {two: "main"}) is None


def test_quota_by_prefix_limits_who_has_the_prefix(tmp_path: Path) -> None:
    quotas = copy_to_folder("quota_by_prefix.py", tmp_path).quota_managers["client-id-prefix"]
    assert quotas.is_unlimited
    quotas.configure({"kafkad.plugin.quota.prefix.batch": "1000", "log.dirs": "/data"})
    assert not quotas.is_unlimited
    assert quotas.record_produce(a_client("batch-1"), 9_000, 0) == 0
    assert quotas.record_produce(a_client("batch-2"), 6_000, 0) == 5_000
    assert quotas.record_produce(a_client("web-1"), 10**9, 0) == 0
    assert quotas.drain_local() == [(a_client("batch", address=""), 15_000, 0)]
    assert quotas.max_fetch_bytes(a_client("batch-9")) == 10_000


def csv_reporter(folder: Path) -> MetricsReporter:
    return copy_to_folder("csv_metrics.py", folder).metrics_reporters["csv"]


def snapshot_with(value: float) -> MetricsSnapshot:
    family = MetricFamily(
        name="messages",
        jmx_name="",
        kind=MetricKind.COUNTER,
        help="",
        samples=(Sample(labels=(("topic", "t"), ("partition", "0")), value=value),),
    )
    return MetricsSnapshot(taken_ms=1_000, families=(family,))


def test_csv_metrics_adds_a_line_for_each_snapshot(tmp_path: Path) -> None:
    host: ReporterHost = RecordedHost(snapshot_with(0))
    reporter = csv_reporter(tmp_path)
    folder = tmp_path / "metrics"
    assert reporter.is_polled
    reporter.start({"kafka.csv.metrics.dir": str(folder)}, host)
    reporter.report(snapshot_with(1))
    reporter.report(snapshot_with(2))
    reporter.stop()
    with (folder / "messages.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [
            ["time_ms", "labels", "value"],
            ["1000", "topic=t;partition=0", "1"],
            ["1000", "topic=t;partition=0", "2"],
        ]


def test_csv_metrics_switched_off_write_nothing(tmp_path: Path) -> None:
    reporter = csv_reporter(tmp_path)
    folder = tmp_path / "metrics"
    settings = {"kafka.csv.metrics.dir": str(folder), "kafka.csv.metrics.reporter.enabled": "false"}
    reporter.start(settings, RecordedHost(snapshot_with(0)))
    reporter.report(snapshot_with(1))
    assert not folder.exists()


def test_keep_with_first_divides_nothing(tmp_path: Path) -> None:
    assignor = copy_to_folder("keep_with_first.py", tmp_path).group_assignors["keep-with-first"]
    topic = UUID(int=1)
    members = {name: AssigningMember(member_id=name, topics=frozenset({topic})) for name in ("a", "b")}
    everything = {topic: frozenset({0, 1, 2})}
    assert assign(assignor, members, {topic: 3}) == {"a": everything, "b": {}}
    members["b"] = AssigningMember(member_id="b", topics=frozenset({topic}), assigned=everything)
    assert assign(assignor, members, {topic: 3}) == {"a": {}, "b": everything}


def test_archive_is_there_only_with_a_place_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugins = install("archive_segments", tmp_path, monkeypatch)
    assert "archive" not in plugins.cleanup_policies
    plugins = load(settings={"kafkad.plugin.archive.to": str(tmp_path / "archive")})
    policy = plugins.cleanup_policies["archive"]
    assert policy.plan(log_of(0, 10, 20, high_watermark=30), LogConfig(retention_ms=-1), 0) == []
    old = policy.plan(log_of(0, 10, 20, high_watermark=30), LogConfig(retention_bytes=100, retention_ms=-1), 0)
    assert [(type(effect), getattr(effect, "up_to_base_offset", None)) for effect in old] == [(TransferSegments, 10)]
    older = policy.plan(log_of(0, 10, 20, high_watermark=30), LogConfig(retention_ms=500), 1000)
    assert [type(effect) for effect in older] == [TransferSegments, RollActive]


def sealed(folder: Path, content: bytes) -> SealedSegment:
    (folder / "segment").write_bytes(content)
    return SealedSegment(
        topic="t",
        topic_id=UUID(int=7),
        partition=3,
        first_offset=5,
        next_offset=9,
        size_bytes=len(content),
        file=(folder / "segment").open("rb"),
    )


ARCHIVED = f"t-{UUID(int=7)}/3/{5:020d}-{9:020d}.log"


@pytest.mark.parametrize("kind", ["directory", "url", "python"])
def test_archived_segment_may_come_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.syspath_prepend(EXAMPLES / "archive_segments")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own.py").write_text(OWN_RECEIVER)
    example = import_module("archive_segments")
    target = tmp_path / "archive"
    to = {"directory": str(target), "url": f"file://{target}", "python": "python:own:keep"}[kind]
    monkeypatch.setenv("OWN_ARCHIVE", str(target))
    receive = example.receiver(to)
    left = target / ARCHIVED
    left.parent.mkdir(parents=True)
    left.with_suffix(".part").write_bytes(b"what a crash has left")
    for _ in range(2):
        segment = sealed(tmp_path, b"batches")
        with segment.file:
            receive(segment)
        assert left.read_bytes() == b"batches"


@pytest.mark.parametrize("is_there", [False, True])
def test_archived_segment_is_on_disk_before_it_may_be_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    """Also one that an earlier life has written, which may have died before it synced the names."""
    monkeypatch.syspath_prepend(EXAMPLES / "archive_segments")
    target = tmp_path / "archive"
    if is_there:
        (target / ARCHIVED).parent.mkdir(parents=True)
        (target / ARCHIVED).write_bytes(b"batches")
    synced: list[Path] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(Path(os.readlink(f"/proc/self/fd/{fd}"))))
    segment = sealed(tmp_path, b"batches")
    with segment.file:
        import_module("archive_segments").to_directory(target, segment)
    names = [each for each in synced if each.is_dir()]
    assert names == [target / ARCHIVED.rpartition("/")[0], target / ARCHIVED.split("/")[0], target, tmp_path]
    assert is_there or synced[0].name == f"{5:020d}-{9:020d}.part"


OWN_RECEIVER = """
import os
from pathlib import Path

def keep(segment):
    offsets = f"{segment.first_offset:020d}-{segment.next_offset:020d}"
    name = f"{segment.topic}-{segment.topic_id}/{segment.partition}/{offsets}.log"
    (Path(os.environ["OWN_ARCHIVE"]) / name).write_bytes(segment.file.read())
"""
