"""Files that are written anew, where not all of them can be."""

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafkad_lakehouse.export.problems import ExportFailed
from kafkad_lakehouse.export.ranges import OffsetRange
from kafkad_lakehouse.export.request import KEEP_LATEST
from kafkad_lakehouse.export.sinks.rewriting import rewrite_changed
from kafkad_lakehouse.export.sinks.sink import Commit
from kafkad_lakehouse.export.table_folder import TableFolder
from kafkad_lakehouse.export.writing import WrittenFile
from tests.lakehouse.export.test_latest import batch_of


def test_when_a_later_partition_fails_no_file_of_an_earlier_one_is_left(tmp_path: Path) -> None:
    folder = TableFolder(str(tmp_path))
    files = []
    for partition in range(2):
        name = f"t-{partition}-0-0.parquet"
        table = pa.Table.from_batches([batch_of([(b"key", b"new")], 1)])
        pq.write_table(table, tmp_path / name)
        files.append(WrittenFile(name, (tmp_path / name).stat().st_size, partition, 1, 1, 1, None, None))
    ranges = [OffsetRange(partition, 1, 2) for partition in range(2)]
    commit = Commit("c", UUID(int=7), "t", ranges, [], files, "20261123T120000-00000001", {}, keeps=KEEP_LATEST)
    seen: list[int] = []

    def before(partition: int) -> Iterator[pa.RecordBatch]:
        seen.append(len(list(tmp_path.glob("*.parquet"))))
        if partition == 1:
            raise ExportFailed("no longer there")
        yield batch_of([(b"other", b"old")], 0)

    with pytest.raises(ExportFailed, match="no longer there"):
        rewrite_changed(folder, commit, before)
    assert seen == [2, 3]
    assert {path.name for path in tmp_path.glob("*.parquet")} == {file.path for file in files}
