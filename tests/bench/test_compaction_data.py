"""The logs of the compaction rows: their keys repeat as often as the row says, and a broker keeps its topic's id."""

from pathlib import Path

import pytest

from bench.compaction.data_sets import Content, put_log

RECORDS = 5_000


def content(repeated_percent: int = 90) -> Content:
    return Content(record_size=100, codec="none", repeated_percent=repeated_percent, batch_bytes=16_384)


@pytest.mark.parametrize("repeated_percent", [10, 90])
def test_keys_repeat_as_often_as_wanted(repeated_percent: int) -> None:
    keys = list(content(repeated_percent).keys(RECORDS))
    repeated = RECORDS - len(set(keys))
    assert repeated == pytest.approx(RECORDS * repeated_percent / 100, rel=0.1)
    assert keys == list(content(repeated_percent).keys(RECORDS)), "the same for each broker"


def test_records_have_their_size() -> None:
    records = list(content().records(20_000))
    assert [len(key) + len(value) for key, value in records] == [100] * 200


def test_a_broker_gets_the_log_and_keeps_the_id_of_its_topic(tmp_path: Path) -> None:
    source, directory = tmp_path / "written" / "t-0", tmp_path / "data" / "t-0"
    for folder, label in ((source, "theirs"), (directory, "ours")):
        folder.mkdir(parents=True)
        for name in ("00000000000000000000.log", "partition.metadata"):
            (folder / name).write_text(label)
    (directory / "00000000000000000007.log").write_text("ours")
    put_log(source, directory)
    found = {path.name: path.read_text() for path in directory.iterdir()}
    assert found == {"00000000000000000000.log": "theirs", "partition.metadata": "ours"}
