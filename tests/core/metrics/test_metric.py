"""Counters become Kafka's metrics: names, labels, sums over processes, idle shares, histograms."""

import ast
from pathlib import Path

import pytest

import kafkad
from kafkad.core.metrics import catalogue
from kafkad.core.metrics.catalogue import (
    BLOCK_WORDS,
    BUSY_NS,
    BYTES_IN,
    COUNTERS,
    GAUGE_INDEXES,
    LATENCY_LIMITS_MS,
    MESSAGES_IN,
    PURGATORY_FETCH,
    PURGATORY_PRODUCE,
    REQUEST_ERRORS,
    REQUESTS,
    error_index,
    request_index,
)
from kafkad.core.metrics.counting import observe_total_time
from kafkad.core.metrics.metric import MetricFamily, MetricKind, MetricsSnapshot
from kafkad.core.metrics.partitions import PartitionReading
from kafkad.core.metrics.snapshot import BrokerReading, ProcessReading, SnapshotBuilder
from kafkad.core.partition_slot import ROLE_FOLLOWER, ROLE_LEADER, STATE_OFFLINE, STATE_ONLINE, PartitionSlot
from kafkad.core.types import FreeSpace

SECOND_NS = 1_000_000_000


def block() -> list[int]:
    return [0] * BLOCK_WORDS


def snapshot_of(
    *processes: ProcessReading, partitions: tuple[PartitionReading, ...] = (), per_partition: bool = False
) -> MetricsSnapshot:
    return SnapshotBuilder({0: "Produce", 1: "Fetch"}).build(
        BrokerReading(
            now_ns=0,
            wall_ms=1_700_000_000_000,
            broker_state=3,
            processes=processes,
            partitions=partitions,
            per_partition=per_partition,
        )
    )


def family(snapshot: MetricsSnapshot, name: str) -> MetricFamily:
    (found,) = [family for family in snapshot.families if family.name == name]
    return found


def reading(topic: str, partition: int, *, role: int = ROLE_LEADER, state: int = STATE_ONLINE) -> PartitionReading:
    slot = PartitionSlot(partition=partition, role=role, state=state, size_bytes=1_000, segment_count=2, leo_offset=70)
    return PartitionReading(topic=topic, slot=slot, messages_in=10, bytes_in=100, bytes_out=300)


def test_no_two_metrics_share_a_word() -> None:
    used = [row.index + word for row in COUNTERS for word in range(row.words)]
    assert len(used) == len(set(used))
    assert max(used) < BLOCK_WORDS


def test_every_metric_is_counted_by_somebody() -> None:
    """A metric that nobody writes says 0 for ever, and a 0 says that all is well."""
    code = Path(kafkad.__file__).parent
    files = [path for path in code.rglob("*.py") if path.name != "catalogue.py"]
    nodes = [node for path in files for node in ast.walk(ast.parse(path.read_text()))]
    stores = [node for node in nodes if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)]
    written = {node.slice.id for node in stores if isinstance(node.slice, ast.Name)}
    named = [node for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    calls = {node.func.id for node in named if isinstance(node.func, ast.Name)}
    rows = [node.args[0] for node in named if isinstance(node.func, ast.Name) and node.func.id == "of_log_dir"]
    written |= {row.id for row in rows if isinstance(row, ast.Name)}
    # These stand for more than a word: functions of the catalogue say which.
    by_function = {
        "REQUESTS": "request_index",
        "REQUEST_ERRORS": "error_index",
        "TOTAL_TIME": "observe_total_time",
        "REBALANCES": "observe_rebalance",
    }
    written |= {name for name, function in by_function.items() if function in calls}
    constants = {name: value for name, value in vars(catalogue).items() if name.isupper()}
    counted = {value for name, value in constants.items() if name in written and type(value) is int}
    assert [row.name for row in COUNTERS if row.index not in counted] == []


def test_only_gauges_are_zeroed_by_a_restart() -> None:
    assert PURGATORY_FETCH in GAUGE_INDEXES
    assert not {MESSAGES_IN, BUSY_NS, REQUESTS} & set(GAUGE_INDEXES)


def test_counters_are_summed_over_processes() -> None:
    first, second = block(), block()
    first[BYTES_IN], second[BYTES_IN] = 5, 7
    snapshot = snapshot_of(ProcessReading("worker", 0, 1, first), ProcessReading("worker", 1, 1, second))
    assert snapshot.value("kafka_server_brokertopicmetrics_bytesin") == 12


def test_purgatories_differ_by_their_label() -> None:
    words = block()
    words[PURGATORY_PRODUCE], words[PURGATORY_FETCH] = 2, 3
    snapshot = snapshot_of(ProcessReading("worker", 0, 1, words))
    name = "kafka_server_delayedoperationpurgatory_purgatorysize"
    assert snapshot.value(name, delayedOperation="Produce") == 2
    assert snapshot.value(name, delayedOperation="Fetch") == 3


def test_requests_are_counted_by_name_and_version() -> None:
    words = block()
    words[request_index(1, 18)] += 4
    words[request_index(0, 9)] += 2
    words[request_index(77, 0)] += 1
    snapshot = snapshot_of(ProcessReading("network", 0, 1, words))
    series = {
        (dict(sample.labels)["request"], dict(sample.labels)["version"]): sample.value
        for sample in family(snapshot, "kafka_network_requestmetrics_requests").samples
    }
    assert series == {("Produce", "9"): 2, ("Fetch", "18"): 4, ("FetchConsumer", "18"): 4, ("77", "0"): 1}


def test_a_version_beyond_the_room_does_not_count_for_another_api() -> None:
    assert request_index(2, 99) < request_index(3, 0)
    assert request_index(2, -1) >= request_index(2, 0)


def test_errors_are_counted_by_their_name() -> None:
    words = block()
    words[error_index(-1)] += 1
    words[error_index(3)] += 2
    snapshot = snapshot_of(ProcessReading("network", 0, 1, words))
    name = "kafka_network_requestmetrics_errors"
    assert snapshot.value(name, error="UNKNOWN_SERVER_ERROR") == 1
    assert snapshot.value(name, error="UNKNOWN_TOPIC_OR_PARTITION") == 2
    assert error_index(-1) == REQUEST_ERRORS


def test_request_times_become_a_cumulative_histogram_in_milliseconds() -> None:
    words = block()
    for elapsed_us in (400, 500, 900, 40_000_000):
        observe_total_time(words, 1, elapsed_us)
    snapshot = snapshot_of(ProcessReading("network", 0, 1, words))
    times = family(snapshot, "kafka_network_requestmetrics_totaltimems")
    fetch, consumers = times.histograms
    assert times.limits == LATENCY_LIMITS_MS
    assert fetch.labels == (("request", "Fetch"),)
    assert consumers.labels == (("request", "FetchConsumer"),)
    assert consumers.counts == fetch.counts
    assert fetch.counts[:3] == (2, 3, 3)
    assert fetch.counts[-2:] == (3, 4)
    assert fetch.sum == pytest.approx(40_001.8)


def test_topics_add_up_their_partitions_beside_the_broker_s_total() -> None:
    words = block()
    words[MESSAGES_IN] = 99
    partitions = (reading("orders", 0), reading("orders", 1), reading("logs", 0))
    snapshot = snapshot_of(ProcessReading("worker", 0, 1, words), partitions=partitions)
    assert snapshot.value("kafka_server_brokertopicmetrics_messagesin") == 99
    assert snapshot.value("kafka_server_brokertopicmetrics_messagesin", topic="orders") == 20
    assert snapshot.value("kafka_log_log_size", topic="orders") == 2_000
    assert len([family.name for family in snapshot.families]) == len({family.name for family in snapshot.families})


def test_replica_counts_follow_role_and_state() -> None:
    partitions = (
        reading("t", 0),
        reading("t", 1, role=ROLE_FOLLOWER),
        reading("t", 2, role=ROLE_FOLLOWER, state=STATE_OFFLINE),
    )
    snapshot = snapshot_of(partitions=partitions)
    assert snapshot.value("kafka_server_replicamanager_partitioncount") == 3
    assert snapshot.value("kafka_server_replicamanager_leadercount") == 1
    assert snapshot.value("kafka_server_replicamanager_offlinereplicacount") == 1


def test_leaders_count_their_partitions_by_replicas_in_sync() -> None:
    def led(in_sync: int, *, role: int = ROLE_LEADER) -> PartitionReading:
        slot = PartitionSlot(role=role, state=STATE_ONLINE, min_in_sync=2)
        return PartitionReading("t", slot, 0, 0, 0, replicas=3, in_sync=in_sync)

    snapshot = snapshot_of(partitions=(led(3), led(2), led(1), led(1, role=ROLE_FOLLOWER), reading("single", 0)))
    name = "kafka_server_replicamanager_"
    assert snapshot.value(name + "leadercount") == 4
    assert snapshot.value(name + "underreplicatedpartitions") == 2
    assert snapshot.value(name + "underminisrpartitioncount") == 1
    assert snapshot.value(name + "atminisrpartitioncount") == 2, "a single replica is at its minimum"


def test_partitions_have_series_of_their_own_only_when_asked_for() -> None:
    snapshot = snapshot_of(partitions=(reading("t", 4),), per_partition=True)
    assert snapshot.value("kafka_log_log_logendoffset", topic="t", partition="4") == 70
    with pytest.raises(KeyError):
        snapshot_of(partitions=(reading("t", 4),)).value("kafka_log_log_logendoffset", topic="t", partition="4")


def test_idle_share_is_the_difference_to_the_snapshot_before() -> None:
    builder = SnapshotBuilder({})
    blocks = [block(), block()]

    def at(now_ns: int) -> MetricsSnapshot:
        processes = [ProcessReading("network", number, 1, words) for number, words in enumerate(blocks)]
        return builder.build(BrokerReading(now_ns=now_ns, wall_ms=0, broker_state=3, processes=processes))

    name = "kafka_network_socketserver_networkprocessoravgidlepercent"
    with pytest.raises(KeyError):
        at(0).value(name)
    blocks[0][BUSY_NS] += SECOND_NS
    assert at(2 * SECOND_NS).value(name) == pytest.approx(0.75)
    assert at(4 * SECOND_NS).value(name) == 1.0


def test_busy_time_and_restarts_are_told_per_process() -> None:
    words = block()
    words[BUSY_NS] = 3 * SECOND_NS
    snapshot = snapshot_of(ProcessReading("worker", 1, 3, words))
    assert snapshot.value("kafkad_process_busy_seconds", process="worker-1") == pytest.approx(3)
    assert snapshot.value("kafkad_process_restarts", process="worker-1") == 2


def test_broker_state_is_kafkas_number() -> None:
    snapshot = snapshot_of()
    assert snapshot.value("kafka_server_kafkaserver_brokerstate") == 3
    assert family(snapshot, "kafka_server_kafkaserver_brokerstate").kind is MetricKind.GAUGE


def test_each_log_directory_says_how_much_room_it_has() -> None:
    free_space = {"/data/a": FreeSpace(free_bytes=5, total_bytes=9), "/data/b": FreeSpace(free_bytes=0, total_bytes=7)}
    reading = BrokerReading(now_ns=0, wall_ms=0, broker_state=3, processes=(), free_space=free_space)
    snapshot = SnapshotBuilder({}).build(reading)
    free, size = (family(snapshot, f"kafkad_log_dir_{name}_bytes").samples for name in ("free", "size"))
    assert [(dict(row.labels)["log_dir"], row.value) for row in free] == [("/data/a", 5), ("/data/b", 0)]
    assert [row.value for row in size] == [9, 7]


def test_the_logs_to_recover_are_told_by_directory() -> None:
    words = [0] * BLOCK_WORDS
    logs_of_b = catalogue.of_log_dir(catalogue.REMAINING_LOGS, 1)
    segments_of_others = catalogue.of_log_dir(catalogue.REMAINING_SEGMENTS, 500)
    words[logs_of_b], words[segments_of_others] = 7, 3
    reading = BrokerReading(now_ns=0, wall_ms=0, broker_state=2, processes=[ProcessReading("worker", 0, 1, words)])
    families = {each.name: each.samples for each in SnapshotBuilder({}, ("/a", "/b")).build(reading).families}
    (logs,) = families["kafka_log_logmanager_remaininglogstorecover"]
    assert (logs.labels, logs.value) == ((("dir", "/b"),), 7)
    (segments,) = families["kafka_log_logmanager_remainingsegmentstorecover"]
    assert (segments.labels, segments.value) == ((("dir", str(catalogue.LOG_DIRS - 1)),), 3)
    assert {logs_of_b, segments_of_others} <= set(GAUGE_INDEXES)


def test_each_log_directory_says_whether_it_is_out_of_use() -> None:
    words = [0] * BLOCK_WORDS
    words[catalogue.of_log_dir(catalogue.LOG_DIR_OFFLINE, 1)] = 1
    reading = BrokerReading(now_ns=0, wall_ms=0, broker_state=3, processes=[ProcessReading("controller", 0, 1, words)])
    families = {each.jmx_name: each.samples for each in SnapshotBuilder({}, ("/a", "/b", "/c")).build(reading).families}
    directories = families["kafka.log:type=LogManager,name=LogDirectoryOffline"]
    assert [(each.labels, each.value) for each in directories] == [
        ((("logDirectory", path),), path == "/b") for path in ("/a", "/b", "/c")
    ]


def test_metrics_of_compaction_have_the_names_that_apache_kafka_gives_them() -> None:
    """LogCleaner.java and LogCleanerManager.java; the last two are there for each log directory."""
    words = block()
    words[catalogue.LAST_CLEANER_RUN] = 1
    for row in (catalogue.UNCLEANABLE_PARTITIONS, catalogue.UNCLEANABLE_BYTES):
        words[catalogue.of_log_dir(row, 0)] = 1
    reading = BrokerReading(
        now_ns=0, wall_ms=0, broker_state=3, processes=[ProcessReading("cleaner", 0, 1, words)], dead_cleaners=0
    )
    families = {
        family.jmx_name: {name for sample in family.samples for name, _ in sample.labels}
        for family in SnapshotBuilder({}, ("/a",)).build(reading).families
        if family.jmx_name.startswith("kafka.log:type=LogCleaner")
    }
    cleaner, manager = "kafka.log:type=LogCleaner,name=", "kafka.log:type=LogCleanerManager,name="
    assert families == {
        cleaner + "max-buffer-utilization-percent": set(),
        cleaner + "cleaner-recopy-percent": set(),
        cleaner + "max-clean-time-secs": set(),
        cleaner + "max-compaction-delay-secs": set(),
        cleaner + "DeadThreadCount": set(),
        manager + "max-dirty-percent": set(),
        manager + "time-since-last-run-ms": set(),
        manager + "uncleanable-partitions-count": {"logDirectory"},
        manager + "uncleanable-bytes": {"logDirectory"},
    }


def test_of_several_cleaners_the_one_with_the_largest_value_counts() -> None:
    first, second = block(), block()
    first[catalogue.MAX_DIRTY_PERCENT], second[catalogue.MAX_DIRTY_PERCENT] = 70, 80
    snapshot = snapshot_of(ProcessReading("cleaner", 0, 1, first), ProcessReading("cleaner", 1, 1, second))
    assert snapshot.value("kafka_log_logcleanermanager_max_dirty_percent") == 80


def test_what_several_cleaners_have_written_again_is_told_of_all_that_they_read() -> None:
    name = "kafka_log_logcleaner_cleaner_recopy_percent"
    assert snapshot_of().value(name) == 0
    first, second, idle = block(), block(), block()
    first[catalogue.RECOPIED_BYTES], first[catalogue.READ_TO_RECOPY_BYTES] = 90, 100
    second[catalogue.RECOPIED_BYTES], second[catalogue.READ_TO_RECOPY_BYTES] = 9, 899
    readings = [ProcessReading("cleaner", number, 1, words) for number, words in enumerate((first, second, idle))]
    assert snapshot_of(*readings).value(name) == 9
    assert {catalogue.RECOPIED_BYTES, catalogue.READ_TO_RECOPY_BYTES} <= set(GAUGE_INDEXES)


def test_time_since_the_last_run_is_that_of_the_cleaner_that_ran_last() -> None:
    first, second = block(), block()
    processes = (ProcessReading("cleaner", 0, 1, first), ProcessReading("cleaner", 1, 1, second))

    def at(now_ms: int) -> MetricsSnapshot:
        return SnapshotBuilder({}).build(
            BrokerReading(now_ns=now_ms * 1_000_000, wall_ms=0, broker_state=3, processes=processes, dead_cleaners=1)
        )

    name = "kafka_log_logcleanermanager_time_since_last_run_ms"
    with pytest.raises(KeyError):
        at(5000).value(name)
    first[catalogue.LAST_CLEANER_RUN], second[catalogue.LAST_CLEANER_RUN] = 1000, 4000
    assert at(5000).value(name) == 1000
    assert at(5000).value("kafka_log_logcleaner_deadthreadcount") == 1
