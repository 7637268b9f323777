"""The reporter in a broker whose other processes do nothing: pages, a taken port, a killed reporter.

Real, for deaths and ports.
"""

import json
import os
import signal
import socket
from contextlib import suppress
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from bench.brokers.ports import free_port
from bench.brokers.processes import WITHIN_S
from tests.daemon.supervised import TrivialBroker

WITH_REPORTER = {"REAL_REPORTER": "1"}


def page(port: int, path: str) -> str:
    with urlopen(f"http://127.0.0.1:{port}{path}", timeout=WITHIN_S) as answer:
        body: bytes = answer.read()
        return body.decode()


def test_health_and_metrics_are_served_and_nothing_else(folder: Path, brokers: list[TrivialBroker]) -> None:
    port = free_port()
    broker = TrivialBroker(folder, f"kafkad.metrics.listener=127.0.0.1:{port}", environment=WITH_REPORTER)
    brokers.append(broker)
    broker.wait_until_serving()
    assert json.loads(page(port, "/health")) == {"serving": True, "state": 3}
    metrics = page(port, "/metrics")
    assert "\nkafka_server_kafkaserver_brokerstate 3.0\n" in metrics
    assert 'kafkad_process_restarts_total{process="worker-1"} 0.0\n' in metrics
    with pytest.raises(HTTPError, match="404"):
        page(port, "/nowhere")


def test_restarts_are_counted_also_by_a_reporter_that_was_restarted_itself(
    folder: Path, brokers: list[TrivialBroker]
) -> None:
    port = free_port()
    broker = TrivialBroker(folder, f"kafkad.metrics.listener=127.0.0.1:{port}", environment=WITH_REPORTER)
    brokers.append(broker)
    broker.wait_until_serving()
    for name in ("worker-1", "reporter-0"):
        os.kill(broker.pid_of(name), signal.SIGKILL)
    broker.wait_for("controller-0 1 replaced reporter-0 1 2")
    broker.wait_for("worker-1 2 ready")
    metrics = ""
    while not metrics:
        # Between two incarnations nobody listens.
        with suppress(OSError):
            metrics = page(port, "/metrics")
    assert 'kafkad_process_restarts_total{process="worker-1"} 1.0\n' in metrics
    assert 'kafkad_process_restarts_total{process="reporter-0"} 1.0\n' in metrics


def test_taken_port_that_was_asked_for_stops_the_start(folder: Path, brokers: list[TrivialBroker]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        broker = TrivialBroker(folder, f"kafkad.metrics.listener=127.0.0.1:{port}", environment=WITH_REPORTER)
        brokers.append(broker)
        assert broker.wait_for_end() == 2
    assert f"no metrics on kafkad.metrics.listener=127.0.0.1:{port}: the port is taken by" in broker.log()
