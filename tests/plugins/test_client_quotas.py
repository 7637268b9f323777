"""The built-in quota manager: limits out of the configuration, produce and fetch apart."""

from kafkad.plugins.client_quotas import ClientIdQuotas
from tests.contexts import a_client


def configured(**settings: str) -> ClientIdQuotas:
    quotas = ClientIdQuotas()
    quotas.configure({name.replace("__", "-").replace("_", "."): text for name, text in settings.items()})
    return quotas


def test_without_options_nobody_is_limited() -> None:
    assert configured().is_unlimited
    assert configured(quota_producer_default=str(2**63 - 1)).is_unlimited
    assert configured(kafkad_quota_consumer_byte_rate_default="-1").is_unlimited


def test_the_default_limits_each_client_in_one_direction() -> None:
    quotas = configured(kafkad_quota_producer_byte_rate_default="1000")
    assert not quotas.is_unlimited
    assert quotas.record_produce(a_client("anna"), 15_000, 0) == 5_000
    assert quotas.record_produce(a_client("bert"), 10_000, 0) == 0
    assert quotas.record_fetch(a_client("anna"), 10**9, 0) == 0
    assert quotas.max_fetch_bytes(a_client("anna")) is None


def test_kafkas_old_option_is_the_default_where_ours_is_unset() -> None:
    assert configured(quota_consumer_default="1000").record_fetch(a_client("anna"), 15_000, 0) == 5_000
    both = configured(quota_consumer_default="1000", kafkad_quota_consumer_byte_rate_default="2000")
    assert both.record_fetch(a_client("anna"), 15_000, 0) == 0


def test_one_client_may_have_a_limit_of_its_own_or_none() -> None:
    quotas = ClientIdQuotas()
    quotas.configure(
        {
            "kafkad.quota.producer.byte.rate.default": "1000",
            "kafkad.quota.client.team.a.producer_byte_rate": "500",
            "kafkad.quota.client.free.producer_byte_rate": "-1",
            "kafkad.quota.consumer.byte.rate.default": "1000",
        }
    )
    assert quotas.record_produce(a_client("team.a"), 10_000, 0) == 10_000
    assert quotas.record_fetch(a_client("team.a"), 15_000, 0) == 5_000, "the other direction keeps the default"
    assert quotas.record_produce(a_client("free"), 10**12, 0) == 0


def test_fewer_windows_make_a_shorter_memory() -> None:
    quotas = ClientIdQuotas()
    quotas.configure(
        {
            "quota.window.num": "2",
            "quota.window.size.seconds": "3",
            "kafkad.quota.consumer.byte.rate.default": "1000",
        }
    )
    assert quotas.max_fetch_bytes(a_client("anna")) == 3_000
    assert quotas.record_fetch(a_client("anna"), 6_000, 0) == 3_000


def test_counts_outlive_a_change_of_the_limits() -> None:
    quotas = configured(kafkad_quota_producer_byte_rate_default="1000")
    assert quotas.record_produce(a_client("anna"), 10_000, 0) == 0
    quotas.configure({"kafkad.quota.producer.byte.rate.default": "500"})
    assert quotas.record_produce(a_client("anna"), 0, 0) == 10_000


def test_throttled_fetches_are_taken_back() -> None:
    quotas = configured(kafkad_quota_consumer_byte_rate_default="1000")
    assert quotas.record_fetch(a_client("anna"), 20_000, 0) > 0
    quotas.unrecord_fetch(a_client("anna"), 20_000, 0)
    assert quotas.record_fetch(a_client("anna"), 10_000, 0) == 0


def test_two_processes_judge_by_the_sum() -> None:
    here, there = (configured(kafkad_quota_producer_byte_rate_default="1000") for _ in range(2))
    here.record_produce(a_client("anna"), 8_000, 0)
    for client, produced, fetched in here.drain_local():
        there.record_remote(client, produced, fetched, 0)
    assert there.record_produce(a_client("anna"), 7_000, 0) == 5_000
