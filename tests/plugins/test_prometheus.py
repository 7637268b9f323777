"""The exposition is what Prometheus' own parser reads back, under the names that dashboards use."""

from prometheus_client.parser import text_string_to_metric_families

from kafkad.core.metrics.catalogue import BLOCK_WORDS, MESSAGES_IN, PURGATORY_FETCH, request_index
from kafkad.core.metrics.counting import observe_total_time
from kafkad.core.metrics.metric import MetricsSnapshot
from kafkad.core.metrics.partitions import PartitionReading
from kafkad.core.metrics.snapshot import BrokerReading, ProcessReading, SnapshotBuilder
from kafkad.core.partition_slot import PartitionSlot
from kafkad.hookspecs import BrokerInfo
from kafkad.plugin_loading import load
from kafkad.plugins.prometheus import Prometheus
from kafkad.testing import RecordedHost


def snapshot() -> MetricsSnapshot:
    words = [0] * BLOCK_WORDS
    words[MESSAGES_IN] = 42
    words[PURGATORY_FETCH] = 3
    words[request_index(0, 13)] = 5
    observe_total_time(words, 0, 1_500)
    partition = PartitionReading('we"ird\\topic', PartitionSlot(partition=0), 7, 70, 700)
    return SnapshotBuilder({0: "Produce"}).build(
        BrokerReading(
            now_ns=0,
            wall_ms=0,
            broker_state=3,
            processes=[ProcessReading("worker", 0, 1, words)],
            partitions=[partition],
        )
    )


Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


def scrape() -> Series:
    host = RecordedHost(snapshot())
    Prometheus().start({}, host)
    return read(host)


def read(host: RecordedHost) -> Series:
    page = host.pages["/metrics"]()
    assert page.content_type.startswith("text/plain; version=0.0.4")
    families = text_string_to_metric_families(page.body.decode())
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def test_counters_end_in_total_and_topics_are_a_label() -> None:
    series = scrape()
    name = "kafka_server_brokertopicmetrics_messagesin_total"
    assert series[name, frozenset()] == 42
    assert series[name, frozenset({("topic", 'we"ird\\topic')})] == 7


def test_gauges_and_labels_keep_kafkas_names() -> None:
    series = scrape()
    purgatory = "kafka_server_delayedoperationpurgatory_purgatorysize"
    assert series[purgatory, frozenset({("delayedOperation", "Fetch")})] == 3
    assert series["kafka_server_kafkaserver_brokerstate", frozenset()] == 3
    requests = frozenset({("request", "Produce"), ("version", "13")})
    assert series["kafka_network_requestmetrics_requests_total", requests] == 5


def test_request_times_are_a_histogram() -> None:
    series = scrape()
    name = "kafka_network_requestmetrics_totaltimems"
    assert series[f"{name}_bucket", frozenset({("request", "Produce"), ("le", "1.0")})] == 0
    assert series[f"{name}_bucket", frozenset({("request", "Produce"), ("le", "2.0")})] == 1
    assert series[f"{name}_bucket", frozenset({("request", "Produce"), ("le", "+Inf")})] == 1
    assert series[f"{name}_count", frozenset({("request", "Produce")})] == 1
    assert series[f"{name}_sum", frozenset({("request", "Produce")})] == 1.5


def test_the_broker_is_named_from_its_start_to_its_stop() -> None:
    host = RecordedHost(snapshot())
    plugins = load()
    plugins.metrics_reporters["prometheus"].start({}, host)
    info = BrokerInfo(version="9", broker_id=4, cluster_id="c", listeners=(), log_dirs=())
    labels = frozenset({("version", "9"), ("broker_id", "4"), ("cluster_id", "c")})
    plugins.broker_started(info)
    assert read(host)["kafkad_broker_info", labels] == 1
    plugins.broker_stopping(info)
    assert ("kafkad_broker_info", labels) not in read(host)


def test_scraped_and_never_polled() -> None:
    assert not Prometheus().is_polled
