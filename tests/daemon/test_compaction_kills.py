"""SIGKILL at random moments to any process while logs are compacted: no record is lost, doubled, reordered or
resurrected, and the latest value of a key stays.

For `compaction_kill_seconds`, with `kill_seed`.
"""

import random
import tempfile
import time
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.brokers.daemon import Kafkad
from bench.brokers.processes import WITHIN_S, eventually, is_alive, kill_all
from tests.amounts import amount
from tests.daemon.compacted_run import PlainWriter, TransactionalWriter, read_all
from tests.tools.log_dump import log_rate_limit

SECONDS = amount("compaction_kill_seconds")
SEED = amount("kill_seed")
SETTINGS = {
    "log.cleaner.backoff.ms": "50",
    "log.initial.task.delay.ms": "0",
    "log.segment.delete.delay.ms": "200",
    "log.cleaner.threads": "2",
    "replica.high.watermark.checkpoint.interval.ms": "200",
    "transaction.state.log.replication.factor": "1",
    "offsets.topic.replication.factor": "1",
}
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": str(1 << 20),
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "500",
}


def _kill(broker: Kafkad, chosen: random.Random) -> str:
    tree = broker.tree()
    names = [process.name for process in tree[1:]]
    # Who compacts and who swaps more often than others.
    busy = [name for name in names if name.startswith(("cleaner", "worker"))]
    victim = chosen.choice([*names, *busy, *busy, "supervisor", "everyone"])
    if victim == "everyone":
        broker.kill()
        broker.start(wait=False)
    elif victim == "supervisor":
        kill_all(tree[:1])
        eventually(lambda: not any(map(is_alive, tree)), what="its children end")
        broker.kill()
        broker.start(wait=False)
    else:
        kill_all([process for process in tree if process.name == victim])
    return victim


@pytest.mark.timeout(4 * SECONDS + 600)
def test_compacted_logs_survive_the_death_of_any_process(tmp_path: Path) -> None:
    chosen = random.Random(SEED)
    with tempfile.TemporaryDirectory(prefix="kills-") as runtime:
        with Kafkad(tmp_path, {**SETTINGS, "kafkad.runtime.dir": runtime}) as broker:
            admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
            for made in admin.create_topics([NewTopic(name, 1, 1, config=COMPACTED) for name in "px"]).values():
                made.result(WITHIN_S)
            writers = PlainWriter(broker.bootstrap, "p", chosen), TransactionalWriter(broker.bootstrap, "x", chosen)
            end = time.monotonic() + SECONDS
            kills = 0
            while time.monotonic() < end:
                for _ in range(chosen.randrange(1, 4)):
                    for writer in writers:
                        writer.write(chosen.randrange(200, 1500))
                print(f"{time.monotonic() - end + SECONDS:.0f} s: SIGKILL to {_kill(broker, chosen)}", flush=True)
                kills += 1
                for writer in writers:
                    writer.write(chosen.randrange(50, 300))
                    if kills % 3 == 0:
                        writer.flush()
                        writer.facts.check(read_all(broker.bootstrap, writer.facts.topic))
            for writer in writers:
                writer.flush()
                writer.facts.check(read_all(broker.bootstrap, writer.facts.topic))
                assert writer.facts.records_gone, f"nothing was compacted of {writer.facts.topic}"
            said = broker.output.read_text(errors="replace")
            compactions = said.count(" was compacted up to ")
            records = sum(len(writer.facts.written) for writer in writers)
            print(f"{kills} kills, {compactions} compactions, {records} records", flush=True)
            assert "exiting: unexpected error" not in said
            assert "cannot compact" not in said
            assert broker.stop() == 0
        files = [path for topic in "px" for path in sorted((broker.log_dir / f"{topic}-0").iterdir())]
        assert not [path.name for path in files if path.suffix in (".cleaned", ".swap")]
        whole = [path for path in files if path.suffix in (".log", ".index", ".timeindex")]
        assert [line for line in log_rate_limit(whole) if "is followed by" not in line and "mismatch" not in line] == []
