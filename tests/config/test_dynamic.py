"""Changes of a running broker: what is refused, what they do, and what waits for a restart."""

import pytest

from kafkad.config.describe import describe_broker
from kafkad.config.dynamic import FIXED_AT_START, apply_dynamic, reloadable, validate_dynamic, with_static
from kafkad.config.table import BROKER_TABLE
from kafkad.core.errors import ErrorCode, KafkaError
from tests.config.configurations import configured

BROKER = configured()
THREADS = "Dynamic thread count update validation failed for background.threads"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("background.threads", "0", "Invalid value 0 for configuration background.threads: Value must be at least 1"),
        ("background.threads", "4", f"{THREADS}=4, value should be at least half the current value 10"),
        ("background.threads", "21", f"{THREADS}=21, value should not be greater than double the current value 10"),
        ("broker.id", "4", "Cannot update these configs dynamically: [broker.id]"),
        ("log.retention.hours", "3", "Cannot update these configs dynamically: [log.retention.hours]"),
        ("message.max.bytes", "abc", "Invalid value abc for configuration message.max.bytes: Not a number of type INT"),
        ("nosuch", "1", "Unknown broker config name: nosuch"),
        ("log.retention.ms", "0", "log.retention.ms: must be -1 (unlimited) or at least 1"),
        (
            "log.cleaner.dedupe.buffer.size",
            "1",
            "log.cleaner.dedupe.buffer.size: must be more than 1 MB for each cleaner (log.cleaner.threads)",
        ),
    ],
)
@pytest.mark.parametrize("per_broker", [True, False])
def test_impossible_change_is_refused(name: str, text: str, message: str, per_broker: bool) -> None:
    with pytest.raises(KafkaError) as error:
        validate_dynamic(BROKER, {name: text}, per_broker=per_broker)
    assert (error.value.code, error.value.message) == (ErrorCode.INVALID_REQUEST, message)


def test_option_of_one_broker_is_no_change_for_all() -> None:
    validate_dynamic(BROKER, {"principal.builder.class": "a.B"}, per_broker=True)
    with pytest.raises(KafkaError, match=r"broker id must be specified: \[principal.builder.class\]"):
        validate_dynamic(BROKER, {"principal.builder.class": "a.B"}, per_broker=False)


@pytest.mark.parametrize("per_broker", [True, False])
@pytest.mark.parametrize("name", sorted(FIXED_AT_START))
def test_what_a_broker_takes_at_its_start_no_request_changes(name: str, per_broker: bool) -> None:
    text = BROKER_TABLE[name].default_text
    assert text is not None
    with pytest.raises(KafkaError, match=r"change server.properties and restart the broker") as error:
        validate_dynamic(BROKER, {name: text, "log.retention.ms": "5"}, per_broker=per_broker)
    assert error.value.code is ErrorCode.INVALID_REQUEST
    assert error.value.message is not None
    assert error.value.message.startswith(f"Cannot update these configs dynamically: [{name}]; ")
    (described,) = [config for config in describe_broker(BROKER) if config.name == name]
    assert described.read_only


def test_stored_change_that_no_request_may_make_any_more_is_ignored() -> None:
    config = apply_dynamic(BROKER, {"num.io.threads": "7", "gone.option": "1"}, {"listeners": "PLAINTEXT://:1"})
    assert config == BROKER
    assert apply_dynamic(config, {"num.io.threads": "7", "log.retention.ms": "5"}, {}).log.retention_ms == 5


@pytest.mark.parametrize(
    "changes",
    [
        {"background.threads": "5"},
        {"max.connections.per.ip": "5"},
        {"listener.name.plaintext.max.connections": "5"},
        {"kafkad.quota.client.app.producer_byte_rate": "5"},
        {},
    ],
)
def test_possible_change_is_accepted_for_all_brokers(changes: dict[str, str]) -> None:
    validate_dynamic(BROKER, changes, per_broker=False)


def test_change_of_this_broker_wins_over_the_cluster_and_the_file() -> None:
    config = apply_dynamic(
        configured(("log.segment.bytes", "1048576"), ("message.max.bytes", "7")),
        {"log.segment.bytes": "2000000", "log.retention.ms": "5"},
        {"log.segment.bytes": "3000000"},
    )
    assert (config.log.segment_bytes, config.log.retention_ms, config.log.max_message_bytes) == (3_000_000, 5, 7)


def test_withdrawn_change_gives_the_file_its_say_again() -> None:
    config = configured(("log.retention.ms", "9"))
    assert apply_dynamic(apply_dynamic(config, {"log.retention.ms": "5"}, {}), {}, {}) == config


def test_reread_file_applies_what_it_can_and_names_the_rest() -> None:
    old = configured(("node.id", "1"), ("max.connections", "10"), ("num.io.threads", "4"))
    new = configured(
        ("node.id", "1"), ("max.connections", "20"), ("num.io.threads", "5"), ("log.dirs", "/a"), ("log.roll.ms", "7")
    )
    reload = reloadable(old, new)
    assert reload.applied == ("log.roll.ms", "max.connections")
    assert reload.needs_restart == ("log.dirs", "num.io.threads")
    assert (reload.config.network.max_connections, reload.config.network.num_io_threads) == (20, 4)
    assert reload.config.log_dirs == old.log_dirs
    assert reload.config.log.segment_ms == 7


def test_what_no_request_may_change_a_reread_file_may_where_it_is_only_a_value() -> None:
    old, new = configured(("num.partitions", "1")), configured(("num.partitions", "3"))
    reload = reloadable(old, new)
    assert (reload.applied, reload.needs_restart) == (("num.partitions",), ())
    assert reload.config.topics.num_partitions == 3
    with pytest.raises(KafkaError, match="Cannot update these configs dynamically"):
        validate_dynamic(old, {"num.partitions": "3"}, per_broker=True)


def test_option_of_a_plugin_has_any_text_and_is_reloaded() -> None:
    reload = reloadable(configured(), configured(("kafkad.plugin.quota.prefix.batch", "1000")))
    assert reload.applied == ("kafkad.plugin.quota.prefix.batch",)
    assert reload.config.texts.written["kafkad.plugin.quota.prefix.batch"] == "1000"


def test_file_that_contradicts_stored_changes_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    old = apply_dynamic(configured(), {"log.cleaner.max.compaction.lag.ms": "1000"}, {})
    assert with_static(old, {"log.cleaner.min.compaction.lag.ms": "5000"}) is old
    assert "configuration unchanged" in caplog.text


def test_retention_in_a_reread_file_may_have_any_unit() -> None:
    reload = reloadable(configured(("log.retention.hours", "5")), configured(("log.retention.hours", "6")))
    assert (reload.applied, reload.needs_restart) == (("log.retention.hours",), ())
    assert reload.config.log.retention_ms == 6 * 3_600_000


def test_unchanged_file_changes_nothing() -> None:
    config = configured(("node.id", "1"))
    reload = reloadable(config, configured(("node.id", "1")))
    assert (reload.config, reload.applied, reload.needs_restart) == (config, (), ())


def test_quota_of_a_client_is_reloaded_and_removed() -> None:
    old = configured(("kafkad.quota.client.a.producer_byte_rate", "5"))
    reload = reloadable(old, configured(("kafkad.quota.client.b.producer_byte_rate", "6")))
    assert dict(reload.config.texts.static) == {"kafkad.quota.client.b.producer_byte_rate": "6"}
    assert reload.needs_restart == ()


def test_stored_changes_stay_above_a_reread_file() -> None:
    old = apply_dynamic(configured(), {"log.retention.ms": "5"}, {})
    reload = reloadable(old, configured(("log.retention.ms", "9"), ("message.max.bytes", "7")))
    assert (reload.config.log.retention_ms, reload.config.log.max_message_bytes) == (5, 7)
    assert reload.applied == ("message.max.bytes",)
