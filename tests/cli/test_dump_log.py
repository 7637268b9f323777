import json
import struct
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kafkad.cli.commands.dump_log import dump_log
from kafkad.core.log.producers.producer_state import EndMarker
from kafkad.core.log.records.end_markers import build_end_marker
from kafkad.core.log.records.record import NewRecord, build_batch

NAME = "00000000000000000000"
RECORDS = [NewRecord(1000, None, b"first", (("h", b"x"),)), NewRecord(1001, b"k", b"se\ncond \xff\x1b[2J")]
FIRST = build_batch(RECORDS, producer_id=9, producer_epoch=1, base_sequence=0, leader_epoch=2)
MARKER = build_end_marker(
    EndMarker(commit=True, coordinator_epoch=6, timestamp=5000),
    producer_id=9,
    producer_epoch=1,
    base_offset=2,
    leader_epoch=2,
)


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    (tmp_path / f"{NAME}.log").write_bytes(FIRST + MARKER)
    (tmp_path / f"{NAME}.index").write_bytes(struct.pack(">ii", 2, len(FIRST)))
    (tmp_path / f"{NAME}.timeindex").write_bytes(struct.pack(">qi", 1001, 1) + bytes(24))
    (tmp_path / "leader-epoch-checkpoint").write_text("0\n1\n2 0\n")
    return tmp_path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(dump_log, [str(argument) for argument in arguments])


def test_a_segment_is_printed_in_the_layout_of_kafkas_own_tool(partition: Path) -> None:
    path = partition / f"{NAME}.log"
    result = run("--print-data-log", path)
    assert result.exit_code == 0
    # Compared once with DumpLogSegments of Apache Kafka 4.3.0, which prints the same for such a file; only
    # control characters in data are escaped here.
    batch, first, second, marker, commit = result.output.splitlines()[2:]
    assert result.output.splitlines()[:2] == [f"Dumping {path}", "Log starting offset: 0"]
    assert batch.startswith(
        "baseOffset: 0 lastOffset: 1 count: 2 baseSequence: 0 lastSequence: 1 producerId: 9 producerEpoch: 1 "
        "partitionLeaderEpoch: 2 isTransactional: false isControl: false deleteHorizonMs: OptionalLong.empty "
        "position: 0 CreateTime: 1001 size: "
    )
    assert batch.endswith("isvalid: true")
    assert first == ("| offset: 0 CreateTime: 1000 keySize: -1 valueSize: 5 sequence: 0 headerKeys: [h] payload: first")
    assert second.endswith(r"key: k payload: se\ncond \xff\x1b[2J")
    assert "isTransactional: true isControl: true" in marker
    assert commit.endswith("sequence: -1 headerKeys: [] endTxnMarker: COMMIT coordinatorEpoch: 6")


def test_deep_iteration_shows_records_without_their_data(partition: Path) -> None:
    result = run("--deep-iteration", partition / f"{NAME}.log")
    assert "| offset: 1" in result.output
    assert "payload" not in result.output


def test_without_options_only_batches_are_shown(partition: Path) -> None:
    assert "| offset" not in run(partition / f"{NAME}.log").output


def test_right_indexes_and_epochs_are_shown(partition: Path) -> None:
    result = run(partition / f"{NAME}.index", partition / f"{NAME}.timeindex", partition / "leader-epoch-checkpoint")
    assert result.exit_code == 0
    assert f"offset: 2 position: {len(FIRST)}" in result.output
    assert "timestamp: 1001 offset: 1" in result.output
    assert "epoch: 2 startOffset: 0" in result.output


def test_a_wrong_index_is_exit_code_1_and_says_where(partition: Path) -> None:
    (partition / f"{NAME}.index").write_bytes(struct.pack(">ii", 1, len(FIRST)))
    result = run("--verify-index-only", partition / f"{NAME}.index")
    assert result.exit_code == 1
    assert "Index offset: 1, log offset: 2" in result.stderr
    assert "position" not in result.stdout


def test_json_is_one_object_a_line(partition: Path) -> None:
    (partition / f"{NAME}.log").write_bytes(FIRST + MARKER[:-1])
    result = run("--json", "--records", partition / f"{NAME}.log")
    facts = [json.loads(line) for line in result.stdout.splitlines()]
    assert [fact.get("kind", "problem") for fact in facts] == ["log", "batch", "record", "record", "problem"]
    assert facts[1]["deleteHorizonMs"] is None and facts[1]["isvalid"] is True
    assert facts[2]["payload"] == "first"
    assert {fact["file"] for fact in facts} == {str(partition / f"{NAME}.log")}
    assert result.exit_code == 1


def test_one_bad_file_among_good_ones_is_exit_code_1(partition: Path) -> None:
    (partition / "00000000000000000009.snapshot").write_bytes(b"junk")
    result = run(partition / "00000000000000000009.snapshot", partition / f"{NAME}.log")
    assert result.exit_code == 1
    assert "Log starting offset: 0" in result.output


def test_an_empty_segment_is_right(tmp_path: Path) -> None:
    (tmp_path / f"{NAME}.log").touch()
    assert run(tmp_path / f"{NAME}.log").exit_code == 0


def test_an_index_without_its_log_is_wrong_usage(partition: Path) -> None:
    (partition / f"{NAME}.log").unlink()
    result = run(partition / f"{NAME}.index")
    assert result.exit_code == 2
    assert f"{NAME}.log" in result.output


@pytest.mark.parametrize("name", ["notes.txt", "1.log", "my.properties"])
def test_an_unknown_file_is_wrong_usage(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    assert run(tmp_path / name).exit_code == 2


def test_what_else_is_in_the_folder_of_a_partition_is_ignored(partition: Path) -> None:
    (partition / "notes.txt").write_text("mine")
    (partition / f"{NAME}.txnindex").touch()
    result = run(*sorted(partition.iterdir()))
    assert result.exit_code == 0
    assert result.stderr.count("\n") == 1 and "notes.txt is ignored" in result.stderr
    assert f"Dumping {partition}/notes.txt\n" in result.stdout


def test_an_index_without_entries_is_called_empty(partition: Path) -> None:
    (partition / f"{NAME}.index").write_bytes(b"")
    assert f"{partition}/{NAME}.index is empty.\n" in run("--verify-index-only", partition / f"{NAME}.index").stdout


def test_a_missing_file_or_none_at_all_is_wrong_usage(tmp_path: Path) -> None:
    assert run(tmp_path / f"{NAME}.log").exit_code == 2
    assert run().exit_code == 2


def test_help_has_an_example() -> None:
    result = run("--help")
    assert "Example:" in result.output
    assert "kafkad dump-log --print-data-log" in result.output
