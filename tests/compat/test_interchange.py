"""One directory under Apache Kafka and kafkad in turn: each serves the same records, offsets, times and look-ups.

After a clean stop, after a kill, where Apache Kafka's cleaner was killed in the middle of its work, and where kafkad's
has compacted what both have written. All in one test: it is the starts of the brokers that take time.
"""

import json
import os
import shutil
import signal
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.brokers.apache import ApacheKafka
from bench.brokers.broker import RunningBroker
from bench.brokers.daemon import Kafkad
from bench.brokers.processes import eventually
from kafkad.adapters.files.checkpoint_files import read_offsets
from kafkad.cli.commands.adopt import adopt
from kafkad.cli.commands.dump_log import dump_log
from kafkad.client.broker_client import BrokerClient
from kafkad.core.log.recovery.checkpoints import LOG_START_OFFSETS
from kafkad.core.types import TopicPartition
from tests.compat import written_logs
from tests.compat.compacted_logs import cleaned, compact, wait_for_compaction
from tests.compat.served_logs import Partition, ServedPartition, differences, served
from tests.tools.log_dump import complaints, insane_indexes

Contents = dict[Partition, ServedPartition]
_WITHIN_S = 180.0
_SETTINGS = {
    # The times of the records lie days back, and a producer is as old as its last record.
    "producer.id.expiration.ms": "864000000",
    "log.retention.check.interval.ms": "3600000",
    "log.flush.start.offset.checkpoint.interval.ms": "100",
}
_CLEANER = {
    "log.cleaner.backoff.ms": "100",
    # What compaction has replaced stays, with its suffix.
    "log.segment.delete.delay.ms": "3600000",
    # A snapshot of the metadata is there soon.
    "metadata.log.max.snapshot.interval.ms": "1000",
}
_KAFKAD = _SETTINGS | {"log.cleaner.enable": "false"}
"""What it serves must not change between two looks."""
_HALF = ("half-compacted", 0)
_COMPACTED = written_logs.COMPACTED
_THEIRS, _OURS = 0, 10
"""The hours from which on the records of each broker are."""


def _trim(broker: RunningBroker, offset: int) -> None:
    """Return when a kill can't take it back."""
    written_logs.trim(broker, offset)
    eventually(
        lambda: read_offsets(broker.log_dir, LOG_START_OFFSETS).get(TopicPartition("trimmed", 0)) == offset,
        within=_WITHIN_S,
        what="the log start is in its checkpoint",
    )


def _stop_in_mid_compaction(apache: ApacheKafka) -> None:
    """Kill it while there is a `.cleaned` file; a round of the cleaner that nobody saw is followed by another."""
    half, hour = apache.log_dir / "half-compacted-0", _THEIRS
    while True:
        written_logs.write_to_be_compacted(apache, "theirs", hour)
        active = max(int(path.stem) for path in half.glob("*.log"))
        while cleaned(apache, "half-compacted") < active:
            if any(name.endswith(".cleaned") for name in os.listdir(half)):
                os.kill(apache.pid, signal.SIGSTOP)
                if any(half.glob("*.cleaned")):
                    apache.kill()
                    return
                os.kill(apache.pid, signal.SIGCONT)
        hour += 10


def _swap_back(directory: Path) -> None:
    """What compaction has replaced is there again, beside `.swap` files: as before the old ones were renamed."""
    replaced = sorted(directory.glob("*.deleted"))
    assert replaced, f"nothing was replaced in {directory}"
    bases = {int(path.name[:20]) for path in replaced}
    for path in sorted(directory.glob("*.*")):
        if path.suffix in (".log", ".index", ".timeindex", ".txnindex") and int(path.stem) in bases:
            path.rename(f"{path}.swap")
    for path in replaced:
        path.rename(path.with_suffix(""))


def _write_and_kill_in_mid_compaction(apache: ApacheKafka) -> Contents:
    """What it served before; `_HALF` is changed afterwards."""
    written_logs.create_all(apache)
    written_logs.write_all(apache, "theirs", _THEIRS)
    _trim(apache, 43)
    for topic in ("compacted", "compacted-transactions"):
        wait_for_compaction(apache, topic)
    stays = written_logs.leave_open(apache, "theirs", _THEIRS + 4)
    contents = served(apache, [at for at in written_logs.PARTITIONS if at != _HALF])
    _stop_in_mid_compaction(apache)
    del stays
    _swap_back(apache.log_dir / "compacted-0")
    return contents


def _assert_nothing_to_complain_about(log_dir: Path) -> None:
    directories = [log_dir / f"{topic}-{partition}" for topic, partition in written_logs.PARTITIONS]
    kinds = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
    found = [path for each in directories for path in sorted(each.iterdir()) if path.suffix in kinds]
    whole = [path for path in found if path.parent.name.removesuffix("-0") not in _COMPACTED]
    assert complaints(whole) == []
    # Compaction leaves gaps between offsets, which the tool mentions.
    compacted = [path for path in found if path not in whole]
    assert [line for line in complaints(compacted) if "is followed by" not in line] == []
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


@pytest.mark.timeout(900)
def test_one_directory_is_the_same_under_apache_kafka_and_kafkad(tmp_path: Path) -> None:
    killed = tmp_path / "killed"
    apache = ApacheKafka(tmp_path / "apache", _SETTINGS | _CLEANER)
    with apache:
        theirs = _write_and_kill_in_mid_compaction(apache)
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
            with BrokerClient(kafkad.bootstrap, _WITHIN_S) as client:
                assert client.topic_configs(list(written_logs.TOPICS)) == written_logs.TOPICS
            assert differences(kafkad, theirs) == []
            written_logs.write_all(kafkad, "ours", _OURS)
            _trim(kafkad, 123)
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
