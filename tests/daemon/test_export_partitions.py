"""Exports of a topic of many partitions: what a task asks the brokers grows with its records, not with their number.

The broker is a real one, which counts its connections.
"""

import json
from pathlib import Path

from confluent_kafka import Producer

from bench.brokers.processes import WITHIN_S
from kafkad.client.broker_client import BrokerClient
from tests.daemon.lake import Lake
from tests.tools.measured import MeasuredBroker

CONNECTIONS = "kafka_server_socketservermetrics_connection_creation_total"
METADATA = "kafka_network_requestmetrics_requests_total"
MANY = 120


def test_all_ranges_of_a_task_share_a_few_connections(tmp_path: Path) -> None:
    with MeasuredBroker(tmp_path / "broker") as broker:
        lake = Lake(broker, tmp_path, "few")
        lake.topic = "many"
        with BrokerClient(broker.bootstrap) as client:
            client.create_topic("many", partitions=MANY, replication_factor=1, configs={})
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for partition in range(MANY):
            producer.produce("many", b"value", partition=partition)
        assert producer.flush(WITHIN_S) == 0
        before = broker.page
        said = json.loads(lake.apart("run", "--source", "broker", "--jobs", "2", "--json"))
        lake.run("verify", "--source", "broker")
        after = broker.page
        assert said["records"] == MANY
        assert after.value(CONNECTIONS) - before.value(CONNECTIONS) < 20
        asked = [page.value(METADATA, request="Metadata") for page in (before, after)]
        assert asked[1] - asked[0] < 20
