"""The example that archives segments in a real broker: what retention lets go is in the archive, whoever dies.

It needs real processes, as cleaners are killed.
"""

import os
import shutil
import signal
from pathlib import Path

from bench.brokers.processes import eventually
from kafkad.client.broker_client import BrokerClient
from kafkad.core.log.records.batch_scan import walk_batches
from tests.amounts import amount
from tests.daemon.served import Served
from tests.tools.raw_requests import RawClient, batch, list_offsets, produce, read_produced

EXAMPLE = Path(__file__).parents[2] / "examples" / "archive_segments" / "archive_segments.py"
TOPIC = "orders"
MB = 1 << 20
EARLIEST = -2
ROUNDS = amount("archive_rounds")


def _log_start(client: RawClient) -> int:
    return int.from_bytes(client.ask(list_offsets(TOPIC, 0, EARLIEST))[-8:], "big")


def _write(client: RawClient, count: int) -> None:
    for _ in range(count):
        assert read_produced(client.ask(produce({(TOPIC, 0): batch(size=600_000)})))[TOPIC, 0].error == 0


def _archived(folder: Path) -> list[int]:
    """The offsets of all records in the archive, in the order of the names."""
    offsets: list[int] = []
    for path in sorted(folder.glob(f"{TOPIC}-*/0/*.log")):
        content = path.read_bytes()
        found = [
            offset
            for _, header in walk_batches(lambda size, at: content[at : at + size], 0, len(content))  # noqa: B023
            for offset in range(header.base_offset, header.next_offset)
        ]
        first, following = (int(part) for part in path.stem.split("-"))
        assert (found[0], found[-1] + 1) == (first, following)
        offsets += found
    return offsets


def test_everything_that_retention_lets_go_is_in_the_archive_whoever_dies(tmp_path: Path) -> None:
    plugins, archive = tmp_path / "plugins", tmp_path / "archive"
    plugins.mkdir()
    shutil.copy(EXAMPLE, plugins)
    settings = {
        "kafkad.plugins.dir": str(plugins),
        "kafkad.plugin.archive.to": str(archive),
        "log.segment.bytes": str(MB),
        "log.retention.bytes": str(MB),
        "log.retention.check.interval.ms": "50",
        "log.initial.task.delay.ms": "0",
        "log.segment.delete.delay.ms": "0",
    }
    with Served(tmp_path / "broker", settings) as served:
        with BrokerClient(served.broker.bootstrap) as admin:
            admin.create_topic(TOPIC, partitions=1, replication_factor=1, configs={"cleanup.policy": "archive"})
        with served.connect() as client:
            for round_ in range(ROUNDS):
                start = _log_start(client)
                _write(client, 5)
                eventually(lambda: _log_start(client) > start, what="segments go")  # noqa: B023
                if round_ % 2:
                    os.kill(served.pid_of("cleaner-0"), signal.SIGKILL)
            end = _log_start(client)
        assert end > ROUNDS
        assert _archived(archive)[:end] == list(range(end))
