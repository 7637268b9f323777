"""A commit that was made, but whose answer got lost, is not taken for that of somebody else: its files stay."""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafkad_lakehouse.export.request import KEEP_LATEST
from tests.lakehouse.export.sinks.test_merging import MERGING, named_by_a_run, offsets_of, with_commits
from tests.lakehouse.export.sinks.test_sinks import MAKERS, MakeSink, begun, commit_of
from tests.lakehouse.export.test_latest import batch_of


@pytest.fixture
def losing(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A server of files is asked once more, and says of our own commit that there is one."""
    link = os.link

    def linked(*of: Any) -> None:
        link(*of)
        raise FileExistsError

    monkeypatch.setattr(os, "link", linked)
    return monkeypatch


@pytest.mark.parametrize("make", MAKERS[:2], ids=["parquet", "delta"])
def test_of_a_merge_the_table_has_its_files(make: MakeSink, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    path = tmp_path / "t"
    with_commits(make, path, range(3))
    losing: pytest.MonkeyPatch = request.getfixturevalue("losing")
    assert make(path).merge_small(MERGING) == (3, 1)
    losing.undo()
    assert len(make(path).files()) == 1 and offsets_of(make, path) == [0, 1, 2]


def test_of_the_latest_of_each_key_the_table_has_its_files(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    make, path = MAKERS[0], tmp_path / "t"
    for number in range(2):
        if number == 1:
            request.getfixturevalue("losing")
        sink, state = begun(make, path)
        commit = named_by_a_run(path, commit_of(number, number + 1))._replace(keeps=KEEP_LATEST)
        pq.write_table(pa.Table.from_batches([batch_of([(b"k", b"v")], number)]), path / commit.files[0].path)
        assert sink.commit(state, commit) == number
    assert offsets_of(make, path) == [1]
