"""A topic's own options: what they mean, and Kafka's words for what they may not be."""

import pytest

from kafkad.config import topic_log_config, validate_topic_config, validate_topic_configs, with_plugin_configs
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.log.settings import LogConfig
from kafkad.core.settings.limits import Between
from kafkad.core.settings.option import SettingType
from kafkad.core.settings.topic_config import TopicConfig, setting_of
from tests.config.configurations import configured

BROKER = configured(("log.retention.hours", "1"), ("log.cleaner.max.compaction.lag.ms", "1000"))


def test_topic_without_options_shares_the_brokers_settings() -> None:
    assert topic_log_config(BROKER, {}) is BROKER.log


def test_default_broker_gives_the_default_settings() -> None:
    assert configured().log == LogConfig()


def test_option_of_the_topic_wins() -> None:
    unclean = {"unclean.leader.election.enable": "TRUE"}
    log = topic_log_config(BROKER, {"retention.ms": " 5 ", "cleanup.policy": "compact, delete", **unclean})
    assert (log.retention_ms, log.cleanup_policy) == (5, frozenset({"compact", "delete"}))
    assert log.unclean_leader_election_enable
    assert log.max_compaction_lag_ms == 1000


def test_tests_may_ask_for_small_segments() -> None:
    assert topic_log_config(BROKER, {"internal.segment.bytes": "1000"}).segment_bytes == 1000


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("retention.ms", "abc", "Invalid value abc for configuration retention.ms: Not a number of type LONG"),
        ("retention.ms", "-2", "Invalid value -2 for configuration retention.ms: Value must be at least -1"),
        ("segment.bytes", "10", "Invalid value 10 for configuration segment.bytes: Value must be at least 1048576"),
        (
            "segment.bytes",
            "99999999999",
            "Invalid value 99999999999 for configuration segment.bytes: Not a number of type INT",
        ),
        (
            "cleanup.policy",
            "foo",
            "Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        (
            "compression.type",
            "foo",
            "Invalid value foo for configuration compression.type:"
            " String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer",
        ),
        (
            "preallocate",
            "yes",
            "Invalid value yes for configuration preallocate: Expected value to be either true or false",
        ),
        ("nosuch", "1", "Unknown topic config name: nosuch"),
        (
            "min.cleanable.dirty.ratio",
            "2",
            "Invalid value 2.0 for configuration min.cleanable.dirty.ratio: Value must be no more than 1",
        ),
        (
            "compression.gzip.level",
            "0",
            "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1",
        ),
        (
            "message.timestamp.type",
            "x",
            "Invalid value x for configuration message.timestamp.type:"
            " String must be one of: CreateTime, LogAppendTime",
        ),
        (
            "leader.replication.throttled.replicas",
            "abc",
            "Invalid value [abc] for configuration leader.replication.throttled.replicas:"
            " leader.replication.throttled.replicas must be the literal '*' or a list of replicas in the following"
            " format: [partitionId]:[brokerId],[partitionId]:[brokerId],...",
        ),
        (
            "remote.storage.enable",
            "true",
            "Tiered Storage functionality is disabled in the broker."
            " Topic cannot be configured with remote log storage.",
        ),
        ("max.message.bytes", "", "Invalid value  for configuration max.message.bytes: Not a number of type INT"),
    ],
)
def test_wrong_option_is_refused_in_kafkas_words(name: str, text: str, message: str) -> None:
    with pytest.raises(KafkaError) as error:
        validate_topic_config(name, text)
    assert (error.value.code, error.value.message) == (ErrorCode.INVALID_CONFIG, message)


def test_option_without_a_value_is_refused() -> None:
    with pytest.raises(KafkaError) as error:
        validate_topic_config("retention.ms", None)
    assert error.value.code is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cleanup.policy", ""),
        ("cleanup.policy", "delete,delete"),
        ("min.cleanable.dirty.ratio", "1e-1"),
        ("retention.bytes", "-5"),
        ("max.message.bytes", "+5"),
        ("remote.storage.enable", "false"),
        ("message.format.version", "3.0"),
    ],
)
def test_whatever_kafka_or_its_tools_accept_is_accepted(name: str, text: str) -> None:
    validate_topic_config(name, text)


def test_lags_of_compaction_have_to_agree_with_what_is_inherited() -> None:
    with pytest.raises(KafkaError) as error:
        validate_topic_configs(BROKER, {"min.compaction.lag.ms": "1001"})
    message = "conflict topic config setting min.compaction.lag.ms (1001) > max.compaction.lag.ms (1000)"
    assert error.value.message == message


def test_plugins_may_add_cleanup_policies() -> None:
    value = validate_topic_config("cleanup.policy", "delete,archive", cleanup_policies=("archive",))
    assert value == ("delete", "archive")
    assert topic_log_config(BROKER, {"cleanup.policy": "archive"}).cleanup_policy == frozenset({"archive"})
    with pytest.raises(KafkaError, match="archive"):
        validate_topic_config("cleanup.policy", "delete,archive")


KEEP = "kafkad.plugin.keep"
ADDED = {
    KEEP: setting_of(
        TopicConfig(name=KEEP, type=SettingType.INT, default=3, documentation="How many.", validator=Between(1))
    )
}


def test_plugins_may_add_configs() -> None:
    assert validate_topic_configs(BROKER, {KEEP: "5"}, added=ADDED) == {KEEP: 5}
    for wrong in ("0", "many"):
        with pytest.raises(KafkaError, match=f"Invalid value {wrong} for configuration {KEEP}: ") as error:
            validate_topic_configs(BROKER, {KEEP: wrong}, added=ADDED)
        assert error.value.code is ErrorCode.INVALID_CONFIG
    with pytest.raises(KafkaError, match=f"Unknown topic config name: {KEEP}"):
        validate_topic_configs(BROKER, {KEEP: "5"})


def test_policies_see_what_plugins_have_added() -> None:
    assert with_plugin_configs(BROKER.log, {KEEP: "5"}, ADDED).plugin_configs == {KEEP: 5}
    assert with_plugin_configs(BROKER.log, {}, ADDED).plugin_configs == {KEEP: 3}
    assert with_plugin_configs(BROKER.log, {KEEP: "5"}, {}) is BROKER.log


def test_topic_outlives_the_plugin_of_its_configs() -> None:
    assert topic_log_config(BROKER, {KEEP: "5"}) is BROKER.log
    assert topic_log_config(BROKER, {KEEP: "5", "retention.ms": "7"}).retention_ms == 7


def test_topic_outlives_a_version_of_the_plugin_that_took_other_values() -> None:
    assert with_plugin_configs(BROKER.log, {KEEP: "many"}, ADDED).plugin_configs == {KEEP: 3}


def test_acks_after_a_sync_hold_for_every_topic_whatever_it_says_itself() -> None:
    broker = configured(("log.dirs", "/x"), ("kafkad.log.flush.acks", "true"))
    assert broker.log.flush_messages == 1
    assert topic_log_config(broker, {"flush.messages": "500"}).flush_messages == 1
    assert topic_log_config(configured(("log.dirs", "/x")), {"flush.messages": "500"}).flush_messages == 500


def test_a_topic_outlives_configs_that_somebody_else_has_stored() -> None:
    """In ZooKeeper there may be options of other versions, and anything in place of a value."""
    assert topic_log_config(BROKER, {"nonsense": "x"}) is BROKER.log
    log = topic_log_config(BROKER, {"nonsense": "x", "retention.ms": "abc", "retention.bytes": "7"})
    assert (log.retention_ms, log.retention_bytes) == (BROKER.log.retention_ms, 7)
