"""`kafkad dump-log` of directories: every kind of file is named, explained, shown and checked."""

import json
import re
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from click.testing import CliRunner, Result

from kafkad.adapters.files.checkpoint_files import write_offsets
from kafkad.cli.commands.dump_log import dump_log
from kafkad.cli.dumping.file_kinds import FILE_KINDS, SUFFIXES, explain_directory, kind_of
from kafkad.core.groups.records import GroupMetadataRemoved, OffsetCommitted
from kafkad.core.log.records.record import NewRecord, build_batch
from kafkad.core.log.recovery.checkpoints import RECOVERY_POINTS, format_partition_metadata
from kafkad.core.transactions.records import TransactionRecord
from kafkad.core.transactions.state import TransactionState
from kafkad.core.types import TopicPartition
from kafkad.wire.records import group_records, transaction_records

NAME = "0" * 20
COMMITTED = OffsetCommitted("readers", "orders", 3, 42, commit_timestamp=1000)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """One partition, and what stands beside it."""
    log_dir = tmp_path / "data"
    log_dir.mkdir()
    write_offsets(log_dir, RECOVERY_POINTS, {TopicPartition("orders", 0): 7})
    (log_dir / "cleaner-offset-checkpoint").write_bytes(b"")
    (log_dir / "meta.properties").write_text("#\nversion=1\ncluster.id=abc\nnode.id=1\n")
    (log_dir / ".lock").write_bytes(b"")
    (log_dir / "lost+found").mkdir()
    add_partition(log_dir, "orders-0", [NewRecord(1000, b"k", b"v")])
    return log_dir


def add_partition(log_dir: Path, name: str, records: list[NewRecord]) -> Path:
    folder = log_dir / name
    folder.mkdir(parents=True)
    (folder / f"{NAME}.log").write_bytes(build_batch(records))
    (folder / f"{NAME}.index").write_bytes(b"")
    (folder / "partition.metadata").write_text(format_partition_metadata(UUID(int=5)))
    return folder


def run(*arguments: object) -> Result:
    return CliRunner().invoke(dump_log, [str(argument) for argument in arguments])


def rows(*arguments: object) -> list[dict[str, Any]]:
    result = run("--json", *arguments)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_a_log_directory_is_shown_with_all_that_is_in_it(log_dir: Path) -> None:
    result = run(log_dir)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == f"Dumping {log_dir} (1 partition director(ies))"
    at = lines.index(f"Dumping {log_dir / RECOVERY_POINTS} (recovery point (synced offset) of each log)")
    assert lines[at + 1] == "topic: orders partition: 0 offset: 7"
    assert "cluster.id=abc" in lines
    assert f"Dumping {log_dir / 'orders-0'} (partition 0 of topic orders)" in lines
    assert "topic_id: AAAAAAAAAAAAAAAAAAAABQ" in lines
    assert any(line.startswith("baseOffset: 0 lastOffset: 0 count: 1") for line in lines)
    assert "lost+found" not in result.output


def test_a_partition_directory_is_shown_as_json(log_dir: Path) -> None:
    found = rows("--records", log_dir / "orders-0")
    assert found[0]["explanation"] == "partition 0 of topic orders"
    assert [row["file"] for row in found if row["kind"] == "file"][1:] == [
        str(log_dir / "orders-0" / name) for name in (f"{NAME}.index", f"{NAME}.log", "partition.metadata")
    ]
    (record,) = [row for row in found if row["kind"] == "record"]
    assert (record["key"], record["payload"]) == ("k", "v")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_suffixes_of_files_are_explained(log_dir: Path, suffix: str) -> None:
    (log_dir / "orders-0" / f"{NAME}.snapshot{suffix}").write_bytes(b"")
    result = run(log_dir / "orders-0")
    assert f"; {suffix}: {SUFFIXES[suffix]})" in result.stdout


@pytest.mark.parametrize("state", ["delete", "future", "stray"])
def test_directories_that_were_renamed_are_explained(log_dir: Path, state: str) -> None:
    renamed = log_dir / f"orders-0.{'a' * 32}-{state}"
    (log_dir / "orders-0").rename(renamed)
    explained = next(row["explanation"] for row in rows(log_dir) if row["file"] == str(renamed))
    assert explained.endswith(("a start removes it", "if this broker has the partition", "not changed"))


def test_what_is_wrong_in_a_directory_is_exit_code_1_and_ends_nothing(log_dir: Path) -> None:
    (log_dir / RECOVERY_POINTS).write_text("0\n2\norders 0 7\n")
    (log_dir / "orders-0" / f"{5:020d}.index").write_bytes(bytes(8))
    (log_dir / "orders-0" / "partition.metadata").write_text("version: 9\n")
    (log_dir / "orders-0" / "notes.txt").write_text("mine")
    result = run(log_dir)
    assert result.exit_code == 1
    assert f"{RECOVERY_POINTS}: expected 2 entries, found 1" in result.stderr
    assert f"there is no {5:020d}.log: a start removes it" in result.stderr
    assert "partition.metadata: expected 'version: 0'" in result.stderr
    assert "notes.txt is ignored" in result.stderr
    assert "baseOffset: 0" in result.stdout


def test_a_directory_of_something_else_is_wrong_usage(tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").write_bytes(b"")
    result = run(tmp_path)
    assert result.exit_code == 2
    assert "no files of a partition or log directory" in result.stderr


def coordinator_record(encoded: tuple[bytes, bytes | None]) -> NewRecord:
    return NewRecord(1000, *encoded)


def test_records_of_internal_topics_are_decoded(tmp_path: Path) -> None:
    state = TransactionRecord(
        transactional_id="pay",
        producer_id=9,
        producer_epoch=1,
        timeout_ms=60_000,
        state=TransactionState.ONGOING,
        last_update_ms=5,
        partitions=(("orders", 0),),
    )
    add_partition(
        tmp_path,
        "__consumer_offsets-7",
        [
            coordinator_record(group_records.encode(COMMITTED)),
            coordinator_record(group_records.encode(GroupMetadataRemoved(group_id="gone"))),
            NewRecord(1000, b"\0\1", None),
        ],
    )
    add_partition(tmp_path, "__transaction_state-1", [coordinator_record(transaction_records.encode(state))])
    topic = b"\1\2\0\7orders" + UUID(int=5).bytes + b"\0"
    add_partition(tmp_path, "__cluster_metadata-0", [NewRecord(1000, None, topic), NewRecord(1000, None, b"\1\x14\0")])
    found = [row["record"] for row in rows("--records", tmp_path) if row["kind"] == "record"]
    added, other, committed, removed, broken, transaction = found
    assert added == {"type": "TopicAdded", "name": "orders", "topic_id": "AAAAAAAAAAAAAAAAAAAABQ"}
    assert other == "unsupported record type"
    assert (committed["type"], committed["group_id"], committed["offset"]) == ("OffsetCommitted", "readers", 42)
    assert removed == {"type": "GroupMetadataRemoved", "group_id": "gone"}
    assert broken.startswith("can't be decoded: ")
    assert (transaction["state"], transaction["partitions"]) == ("ONGOING", [["orders", 0]])
    shown = run("--records", tmp_path / "__consumer_offsets-7").stdout
    assert 'record: {"type": "OffsetCommitted", "group_id": "readers"' in shown


def test_a_decoder_may_be_named_for_files_that_lie_elsewhere(tmp_path: Path) -> None:
    log = tmp_path / f"{NAME}.log"
    log.write_bytes(build_batch([coordinator_record(group_records.encode(COMMITTED))]))
    (record,) = [row for row in rows("--offsets-decoder", log) if row["kind"] == "record"]
    assert record["record"]["topic"] == "orders"
    assert run("--offsets-decoder", "--transaction-log-decoder", log).exit_code == 2


def test_the_page_about_files_has_every_kind() -> None:
    page = (Path(__file__).parents[2] / "docs" / "storage.md").read_text()
    names = [kind.name for kind in FILE_KINDS if kind.name not in ("quorum-state", ".checkpoint")]
    assert [name for name in (*names, *SUFFIXES, "-delete", "-future", "-stray") if f"{name}`" not in page] == []


def test_every_file_of_the_page_is_known() -> None:
    page = (Path(__file__).parents[2] / "docs" / "storage.md").read_text()
    tables = page[page.index("## A log directory") : page.index("### Suffixes of files")]
    cells = [line.split("|")[1] for line in tables.splitlines() if line.startswith("| `")]
    named = [name for cell in cells for name in re.findall("`([^`]+)`", cell)]
    files = [name.replace("<offset>", NAME).replace("*", "checkpoint") for name in named]
    assert len(files) > 15
    assert [name for name in files if kind_of(Path(name)) is None and not explain_directory(name)] == []
