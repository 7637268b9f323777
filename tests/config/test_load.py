"""What a file and overrides come to."""

import socket
from pathlib import Path

import pytest

from kafkad.config import Endpoint, InvalidConfiguration, load
from kafkad.config.entities.broker import NO_NODE_ID
from kafkad.config.load import LARGEST_FILE, MAX_PROBLEMS
from kafkad.config.table import BROKER_TABLE
from tests.config.configurations import configured, problems


def written(folder: Path, text: str) -> Path:
    path = folder / "server.properties"
    path.write_text(text, encoding="utf-8")
    return path


def test_nothing_written_is_a_working_configuration() -> None:
    config = configured()
    (listener,) = config.network.listeners
    assert (listener.host, listener.port, listener.advertised) == ("127.0.0.1", 9092, None)
    assert config.log_dirs.log_dirs == ("/home/user/.local/share/kafkad",)
    assert config.notices == ()


@pytest.mark.parametrize(
    ("environ", "is_root", "log_dir", "runtime_dir"),
    [
        ({}, True, "/var/lib/kafkad", "/run/kafkad"),
        ({"RUNTIME_DIRECTORY": "/run/one:/run/two"}, True, "/var/lib/kafkad", "/run/one"),
        ({"HOME": "/h"}, False, "/h/.local/share/kafkad", "/h/.cache/kafkad"),
        ({"XDG_DATA_HOME": "/d", "XDG_RUNTIME_DIR": "/r"}, False, "/d/kafkad", "/r/kafkad"),
        ({"HOME": "/h", "XDG_DATA_HOME": "relative"}, False, "/h/.local/share/kafkad", "/h/.cache/kafkad"),
    ],
)
def test_default_folders_are_the_systems_or_the_users(
    environ: dict[str, str], is_root: bool, log_dir: str, runtime_dir: str
) -> None:
    config = load(None, cores=1, environ=environ, is_root=is_root)
    assert (config.log_dirs.log_dirs, config.runtime.dir) == ((log_dir,), runtime_dir)


def test_written_folder_under_tmp_is_respected() -> None:
    assert configured(("log.dirs", "/tmp/a,/tmp/b")).log_dirs.log_dirs == ("/tmp/a", "/tmp/b")


@pytest.mark.parametrize(("cores", "expected"), [(1, (1, 1)), (2, (1, 1)), (4, (2, 2)), (8, (3, 5)), (64, (3, 8))])
def test_process_counts_are_capped_by_cores(cores: int, expected: tuple[int, int]) -> None:
    network = configured(cores=cores).network
    assert (network.num_network_threads, network.num_io_threads) == expected


def test_written_process_count_is_respected() -> None:
    assert configured(("num.io.threads", "8"), cores=1).network.num_io_threads == 8


def test_override_wins_over_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, "num.partitions=3\nnum.partitions=4\ndelete.topic.enable=false\n")
    config = configured(("num.partitions", "5"), path=path)
    assert (config.topics.num_partitions, config.topics.delete_topic_enable) == (5, False)


def test_every_problem_is_one_line_with_its_place(tmp_path: Path) -> None:
    path = written(tmp_path, "# note\nlog.retention.hour=1\nnum.partitions=many\n")
    assert problems(("port", "9092"), path=path) == [
        "server.properties line 2: log.retention.hour: unknown option; did you mean log.retention.hours?",
        "server.properties line 3: num.partitions: Invalid value many for configuration num.partitions:"
        " Not a number of type INT",
        "--override: port: no longer an option; use listeners=PLAINTEXT://:PORT",
    ]


def test_missing_file_is_one_line(tmp_path: Path) -> None:
    assert problems(path=tmp_path / "none") == [f"can't read {tmp_path / 'none'}: No such file or directory"]


def test_broken_escape_is_one_line(tmp_path: Path) -> None:
    path = written(tmp_path, "a=\\u1")
    assert problems(path=path) == [f"{path}: line 1: \\u needs four hexadecimal digits"]


def test_refusal_means_exit_code_2() -> None:
    assert InvalidConfiguration([]).exit_code == 2


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("authorizer.class.name", "org.example.Authorizer", "nothing would be protected"),
        ("super.users", "User:admin", "nothing would be protected"),
        ("remote.log.storage.system.enable", "true", "there is no remote storage"),
        ("security.inter.broker.protocol", "SSL", "only PLAINTEXT"),
        ("metric.reporters", "org.example.Reporter", "kafkad.metrics.reporters"),
        ("config.providers", "file", "JVM class"),
        ("listeners", "SASL_SSL://:9092", "only PLAINTEXT"),
        ("advertised.listeners", "PLAINTEXT://0.0.0.0:9092", "clients can't connect to 0.0.0.0"),
        ("kafkad.coordination.store", "zookeeper", "String must be one of: embedded"),
        ("kafkad.arena.bytes", "9223372036854775807", "Value must be no more than 1099511627776"),
        ("kafkad.metrics.listener", "9308", "expected host:port"),
        ("max.connections.per.ip.overrides", "10.0.0.1:x", "expected host:count"),
        ("queued.max.request.bytes", "1000", "at least socket.request.max.bytes"),
        ("kafkad.arena.bytes", "1048576", "at least socket.request.max.bytes"),
        ("log.dirs", "", "at least one log directory"),
        ("log.dirs", "/a,/b,/a", "occurs twice"),
        ("log.dirs", "/a,,/b", "no path may be empty"),
        ("log.retention.hours", "0", "must be -1"),
        ("log.roll.ms", "0", "at least 1"),
        ("log.roll.jitter.ms", "-1", "at least 0"),
        ("log.cleaner.dedupe.buffer.size", "1000", "1 MB"),
        ("offsets.topic.compression.codec", "9", "0 to 4"),
    ],
)
def test_refused_configuration_says_why(name: str, value: str, reason: str) -> None:
    (line,) = problems((name, value))
    assert reason in line


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("metric.reporters", "org.apache.kafka.common.metrics.JmxReporter"),
        ("authorizer.class.name", ""),
        ("remote.log.storage.system.enable", "false"),
        ("security.inter.broker.protocol", "PLAINTEXT"),
        ("zookeeper.connect", ""),
    ],
)
def test_refused_option_may_say_what_is_the_case_anyway(name: str, value: str) -> None:
    assert problems((name, value)) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("process.roles", "broker"),
        ("ssl.keystore.location", "/etc/keys"),
        ("listener.name.internal.ssl.keystore.password", "secret"),
        ("listener.name.internal.plain.sasl.jaas.config", "secret"),
        ("listener.name.internal.max.connections", "5"),
        ("rsm.config.bucket", "b"),
        ("offsets.commit.required.acks", "1"),
    ],
)
def test_option_without_effect_is_noticed_in_one_line(name: str, value: str) -> None:
    (notice,) = configured((name, value)).notices
    assert notice.startswith(f"{name} has no effect: ")
    assert "secret" not in notice


@pytest.mark.parametrize("name", ["listener.name.a.nonsense", "kafkad.quota.client.a.bytes", "rsm.config"])
def test_family_has_only_known_members(name: str) -> None:
    assert problems((name, "1")) != []


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [((), 1), ((("node.id", "7"),), 7), ((("broker.id", "3"),), 3), ((("broker.id", "-1"),), 1)],
)
def test_node_id_and_broker_id_are_one_number(overrides: tuple[tuple[str, str], ...], expected: int) -> None:
    config = configured(*overrides)
    assert (config.node_id, config.values["broker.id"]) == (expected, expected)


def test_differing_ids_are_refused() -> None:
    assert problems(("node.id", "1"), ("broker.id", "2")) == [
        "--override: broker.id: is 2, but node.id is 1; remove one of them"
    ]


IN_CLUSTER = ("zookeeper.connect", "127.0.0.1:2181")


def test_a_broker_of_a_cluster_without_a_number_is_given_one() -> None:
    assert configured(IN_CLUSTER).node_id == NO_NODE_ID
    assert configured(IN_CLUSTER, ("broker.id", "-1")).node_id == NO_NODE_ID
    assert configured(IN_CLUSTER, ("broker.id", "0")).node_id == 0
    assert configured(IN_CLUSTER, ("node.id", "1000")).node_id == 1000
    found = load(None, [IN_CLUSTER], found_id=1001)
    assert (found.node_id, found.values["node.id"], found.values["broker.id"]) == (1001, 1001, 1001)


@pytest.mark.parametrize("name", ["broker.id", "node.id"])
def test_a_number_that_zookeeper_may_hand_out_is_refused(name: str) -> None:
    (error,) = problems(IN_CLUSTER, (name, "1001"))
    assert error.endswith("broker.id: is 1001, but ids above reserved.broker.max.id, 1000, are assigned by ZooKeeper")
    assert problems((name, "1001")) == [], "it is no cluster's"
    assert problems(IN_CLUSTER, (name, "1001"), ("reserved.broker.max.id", "1001")) == []
    assert problems(IN_CLUSTER, (name, "1001"), ("broker.id.generation.enable", "false")) == []


def test_a_broker_of_a_cluster_has_an_address_for_others() -> None:
    (listener,) = configured(IN_CLUSTER).network.listeners
    assert str(listener.advertised) == "127.0.0.1:9092"
    (listener,) = configured(IN_CLUSTER, ("listeners", "PLAINTEXT://:9092")).network.listeners
    assert str(listener.advertised) == f"{socket.getfqdn()}:9092"
    two = ("listeners", "PLAINTEXT://:9092,INSIDE://:9093")
    protocols = ("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT")
    assert problems(
        *(IN_CLUSTER, two, protocols),
        *(("advertised.listeners", "PLAINTEXT://a:1"), ("inter.broker.listener.name", "INSIDE")),
    ) == ["advertised.listeners has no address of INSIDE, the listener between brokers"]


def test_a_number_is_needed_where_none_is_handed_out() -> None:
    assert problems(IN_CLUSTER, ("broker.id.generation.enable", "false")) == [
        "broker.id: is missing, and broker.id.generation.enable is false"
    ]


@pytest.mark.parametrize(
    ("overrides", "retention_ms"),
    [
        ((), 7 * 24 * 3_600_000),
        ((("log.retention.hours", "1"),), 3_600_000),
        ((("log.retention.hours", "1"), ("log.retention.minutes", "1")), 60_000),
        ((("log.retention.minutes", "1"), ("log.retention.ms", "5")), 5),
        ((("log.retention.hours", "-1"),), -1),
        ((("log.retention.ms", "-2"),), -1),
    ],
)
def test_finest_unit_wins(overrides: tuple[tuple[str, str], ...], retention_ms: int) -> None:
    assert configured(*overrides).log.retention_ms == retention_ms


def test_broker_options_reach_the_logs() -> None:
    log = configured(
        ("log.cleanup.policy", "compact,delete"),
        ("log.roll.hours", "2"),
        ("log.roll.jitter.hours", "1"),
        ("log.flush.scheduler.interval.ms", "77"),
        ("message.max.bytes", "5"),
        ("log.index.size.max.bytes", "8"),
    ).log
    assert log.cleanup_policy == {"compact", "delete"}
    assert (log.segment_ms, log.segment_jitter_ms, log.flush_ms) == (7_200_000, 3_600_000, 77)
    assert (log.max_message_bytes, log.segment_index_bytes) == (5, 8)


def test_metrics_listener_can_be_moved_and_turned_off() -> None:
    default = configured().metrics
    assert (default.listener, default.listener_is_default) == (Endpoint(host="127.0.0.1", port=9308), True)
    moved = configured(("kafkad.metrics.listener", "0.0.0.0:1")).metrics
    assert (moved.listener, moved.listener_is_default) == (Endpoint(host="0.0.0.0", port=1), False)
    assert configured(("kafkad.metrics.listener", "")).metrics.listener is None


def test_arena_grows_with_the_largest_request() -> None:
    assert configured(("socket.request.max.bytes", "1000000000")).runtime.arena_bytes == 1_000_000_000


def test_limits_per_address_are_read() -> None:
    limits = configured(("max.connections.per.ip.overrides", "10.0.0.1:5, host:7")).network
    assert limits.max_connections_per_ip_overrides == {"10.0.0.1": 5, "host": 7}


def test_every_default_is_a_value_that_may_be_written() -> None:
    for name, setting in BROKER_TABLE.items():
        text = setting.default_text
        # Kafka, too, refuses an empty text for some lists that are empty by default.
        if text:
            assert setting.parse(text) == setting.default, name


def test_name_that_is_there_twice_is_named_and_the_last_one_is_meant(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("num.partitions=2\nnum.io.threads=1\nnum.partitions=3\n")
    config = configured(path=path)
    assert config.topics.num_partitions == 3
    assert config.notices == (
        "server.properties line 3: num.partitions: occurs again, and overrides server.properties line 1",
    )


def test_file_that_is_far_too_large_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_bytes(b"#" * (LARGEST_FILE + 1))
    assert problems(path=path) == [f"{path} has more than 1,048,576 bytes, and is not a broker's configuration"]
    assert len(problems(path=Path("/dev/zero"))) == 1


def test_folder_is_no_file(tmp_path: Path) -> None:
    assert problems(path=tmp_path) == [f"can't read {tmp_path}: Is a directory"]


def test_mistakes_without_end_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("".join(f"unknown.{number}=1\n" for number in range(30_000)))
    lines = problems(path=path)
    assert (len(lines), lines[-1]) == (MAX_PROBLEMS + 1, "and 29900 more problems")


@pytest.mark.parametrize(
    "content",
    [
        b"num.partitions=" + b"9" * 100_000,
        b"num.partitions=" + b"x" * 100_000,
        b"n" * 100_000,
        b"log.dirs=/data\\u0000\n",
        b"\0" * 1000,
        b"\x1b]0;title\x07=1",
        b"num.partitions=1\\n2",
        bytes(range(256)),
        b"log.dirs=\\u12",
    ],
)
def test_rubbish_is_one_short_line_that_says_nothing_to_a_terminal(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "server.properties"
    path.write_bytes(content)
    lines = problems(path=path)
    assert lines
    assert all(len(line) < 10_000 and line.isprintable() for line in lines)
