"""One directory under Apache Kafka and kafkad in turn: each serves the same records, offsets, times and look-ups.

After a clean stop, after a kill, where Apache Kafka's cleaner was killed in the middle of its work, and where kafkad's
has compacted what both have written. All in one test: it is the starts of the brokers that take time.
"""

import json
import shutil
from pathlib import Path

from click.testing import CliRunner

from bench.brokers.apache import ApacheKafka
from bench.brokers.daemon import Kafkad
from bench.brokers.processes import WITHIN_S
from kafkad.cli.commands.adopt import adopt
from kafkad.cli.commands.dump_log import dump_log
from kafkad.client.broker_client import BrokerClient
from kafkad.client.configs import topic_configs
from tests.compat import written_logs
from tests.compat.compacted_logs import compact
from tests.compat.killed_in_compaction import CLEANER, trim, write_and_kill_in_mid_compaction
from tests.compat.served_logs import differences, served
from tests.tools.log_dump import insane_indexes, log_rate_limit

_SETTINGS = {
    # The times of the records lie days back, and a producer is as old as its last record.
    "producer.id.expiration.ms": "864000000",
    "log.retention.check.interval.ms": "3600000",
    "log.flush.start.offset.checkpoint.interval.ms": "100",
}
# A snapshot of the metadata is there soon.
_SNAPSHOTS = {"metadata.log.max.snapshot.interval.ms": "1000"}
_KAFKAD = _SETTINGS | {"log.cleaner.enable": "false"}
"""What it serves must not change between two looks."""
_COMPACTED = written_logs.COMPACTED
_OURS = 10
"""The hour from which on its records are."""


def _assert_nothing_to_complain_about(log_dir: Path) -> None:
    directories = [log_dir / f"{topic}-{partition}" for topic, partition in written_logs.PARTITIONS]
    # Of the fifty partitions of an internal topic those that hold something.
    internal = {path.parent for path in log_dir.glob("__*-*/*.log") if path.stat().st_size}
    internal -= set(log_dir.glob("__cluster_metadata-*"))
    assert internal, "nothing is in the transaction coordinators' logs"
    directories += sorted(internal)
    kinds = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
    found = [path for each in directories for path in sorted(each.iterdir()) if path.suffix in kinds]
    whole = [path for path in found if path.parent.name.removesuffix("-0") not in _COMPACTED]
    assert log_rate_limit(whole) == []
    # Compaction leaves gaps between offsets, which the tool mentions.
    compacted = [path for path in found if path not in whole]
    assert [line for line in log_rate_limit(compacted) if "is followed by" not in line] == []
    assert insane_indexes([path for path in found if path.suffix in (".index", ".timeindex")]) == []


def _adopt(log_dir: Path) -> None:
    """The configs come from the metadata log that Apache Kafka wrote, and from a snapshot of it."""
    snapshots = sorted(path.name for path in (log_dir / "__cluster_metadata-0").glob("*.checkpoint"))
    assert int(snapshots[-1].split("-")[0]) > 0
    done = CliRunner().invoke(adopt, ["--yes", "--json", str(log_dir)])
    assert done.exit_code == 0, done.output
    topics = {topic["topic"]: topic for topic in json.loads(done.stdout)["topics"]}
    assert {name: topics[name]["configs"] for name in written_logs.TOPICS} == written_logs.TOPICS
    assert topics["codec-zstd"]["partitions"][0]["codecs"] == ["zstd"]
    assert topics["__transaction_state"]["configs"]["cleanup.policy"] == "compact"


def _assert_is_shown_whole(log_dir: Path) -> None:
    """Nothing in it is unknown to `kafkad dump-log`, damaged, or of a format that it can't decode."""
    shown = CliRunner().invoke(dump_log, ["--deep-iteration", "--verify-index-only", "--json", str(log_dir)])
    assert (shown.exit_code, shown.stderr) == (0, "")
    internal = [str(each) for each in sorted(log_dir.iterdir()) if each.is_dir() and each.name.startswith("__")]
    decoded = CliRunner().invoke(dump_log, ["--records", "--json", *internal])
    records = [row["record"] for line in decoded.stdout.splitlines() if "record" in (row := json.loads(line))]
    assert {record["type"] for record in records if isinstance(record, dict)} >= {"TopicAdded", "TransactionRecord"}
    assert [record for record in records if str(record).startswith("can't be decoded")] == []


def test_one_directory_is_the_same_under_apache_kafka_and_kafkad(tmp_path: Path) -> None:
    killed = tmp_path / "killed"
    apache = ApacheKafka(tmp_path / "apache", _SETTINGS | CLEANER | _SNAPSHOTS)
    with apache:
        theirs = write_and_kill_in_mid_compaction(apache, "theirs")
        shutil.copytree(apache.log_dir, killed)

        # What Apache Kafka's own recovery makes of it is the measure.
        with open(apache.folder / "server.properties", "a") as properties:
            properties.write("log.cleaner.enable=false\n")
        apache.start()
        recovered = served(apache, written_logs.PARTITIONS)
        assert {at: recovered[at] for at in theirs} == theirs
        with Kafkad(tmp_path / "after-kill", _KAFKAD | {"log.dirs": str(killed)}) as kafkad:
            assert differences(kafkad, recovered) == []
        written_logs.fence(apache, "theirs")
        theirs = served(apache, written_logs.PARTITIONS)
        assert apache.stop() in apache.clean_exits

        _adopt(apache.log_dir)
        kafkad = Kafkad(tmp_path / "after-stop", _KAFKAD)
        kafkad.log_dir = apache.log_dir
        with kafkad:
            with BrokerClient(kafkad.bootstrap, WITHIN_S) as client:
                assert topic_configs(client, list(written_logs.TOPICS)) == written_logs.TOPICS
            assert differences(kafkad, theirs) == []
            written_logs.write_all(kafkad, "ours", _OURS)
            trim(kafkad, 123)
            compact(kafkad, _COMPACTED)
            stays = written_logs.leave_open(kafkad, "ours", _OURS + 4)
            ours = served(kafkad, written_logs.PARTITIONS)
            # Nothing is written meanwhile: the copy is what a kill would leave.
            shutil.copytree(apache.log_dir, tmp_path / "not-stopped")
            assert kafkad.stop() == 0
        del stays
        _assert_nothing_to_complain_about(apache.log_dir)
        _assert_is_shown_whole(apache.log_dir)
        shutil.copytree(apache.log_dir, tmp_path / "stopped")

        for state in ("stopped", "not-stopped"):
            shutil.rmtree(apache.log_dir)
            shutil.copytree(tmp_path / state, apache.log_dir)
            apache.start()
            assert differences(apache, ours) == []
            apache.kill()
