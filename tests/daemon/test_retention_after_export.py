"""cleanup.policy=delete-exported in a real broker: segments wait for the slowest group of an export.

Real, as cleaner, coordinators and logs are in different processes, which are killed.
"""

import os
import signal
from pathlib import Path

from bench.brokers.processes import eventually
from kafkad.client.broker_client import BrokerClient
from tests.daemon.group_client import GroupClient
from tests.daemon.served import Served
from tests.tools.raw_requests import RawClient, batch, list_offsets, produce, read_produced

TOPIC = "orders"
MB = 1 << 20
EARLIEST = -2
METRIC = "kafkad_retention_bytes_to_export"


def _log_start(client: RawClient) -> int:
    return int.from_bytes(client.ask(list_offsets(TOPIC, 0, EARLIEST))[-8:], "big")


def _waiting(served: Served) -> float:
    return sum(float(line.rpartition(" ")[2]) for line in served.metric_lines(METRIC))


def test_segments_go_when_every_export_has_committed_beyond_them(tmp_path: Path) -> None:
    settings = {
        "log.segment.bytes": str(MB),
        "log.retention.bytes": "0",
        "log.retention.check.interval.ms": "50",
        "log.initial.task.delay.ms": "0",
        "log.segment.delete.delay.ms": "0",
        "num.io.threads": "2",
    }
    with Served(tmp_path, settings) as served, GroupClient(served.broker.port) as groups:
        with BrokerClient(served.broker.bootstrap) as admin:
            admin.create_topic(TOPIC, partitions=1, replication_factor=1, configs={"cleanup.policy": "delete-exported"})
        with served.connect() as client:
            for _ in range(10):
                assert read_produced(client.ask(produce({(TOPIC, 0): batch(size=600_000)})))[TOPIC, 0].error == 0
            eventually(lambda: _waiting(served) > 5 * MB, what="all segments wait")
            for group, offset in (("kafkad-export-slow", 4), ("kafkad-export-fast", 9), ("other", 1)):
                groups.find(group)
                assert int(groups.commit(group, {(TOPIC, 0): offset})) == 0
            eventually(lambda: _log_start(client) == 4, what="what both have is gone")
            os.kill(served.pid_of("worker-0"), signal.SIGKILL)
            os.kill(served.pid_of("cleaner-0"), signal.SIGKILL)
        with served.connect() as client:
            eventually(lambda: 0 < _waiting(served) < 5 * MB, what="the rest waits for the slow one")
            eventually(lambda: _log_start(client) == 4, what="the next worker has loaded the log")
            eventually(
                lambda: int(groups.commit("kafkad-export-slow", {(TOPIC, 0): 9})) == 0,
                what="the slow one has committed",
            )
            eventually(lambda: _log_start(client) == 9, what="what both have is gone again")
