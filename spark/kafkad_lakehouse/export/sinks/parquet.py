"""A folder of Parquet files with a log of manifests.

For exactly the committed files, readers take the paths from the manifests (`kafkad export files`). Other readers list
the folder: so on a disk files are renamed to their final names after the commit, and the next process completes the
renames of a run that was killed. In S3, and for rewritten rows, files without a manifest are orphans of such a run.

A manifest may also have files that it replaced, after small files were merged. For a table with the latest of each key
a manifest has all files: each commit is a snapshot, and the newest one is the table.
"""

import base64
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any
from uuid import UUID

import pyarrow as pa

from kafkad_lakehouse.export.problems import CommitConflict, ExportFailed, after_commit
from kafkad_lakehouse.export.request import KEEP_ALL, KEEP_LATEST
from kafkad_lakehouse.export.schema import RECORDS
from kafkad_lakehouse.export.sinks.complete_hours import progress_after
from kafkad_lakehouse.export.sinks.foreign_files import table_of_another_run
from kafkad_lakehouse.export.sinks.manifest_log import FORMAT, FORMAT_OF_MERGES, LOG, ManifestLog, Table, ago_ms
from kafkad_lakehouse.export.sinks.merging import TableFile, merge, new_run_id, small_files
from kafkad_lakehouse.export.sinks.rewriting import changed_partitions, remove, rewrite_changed, rows
from kafkad_lakehouse.export.sinks.sink import Commit, Merged, Merging, TableState
from kafkad_lakehouse.export.table_folder import PendingFile, TableFolder
from kafkad_lakehouse.export.writing import DATE, HOUR, Layout, WrittenFile, divided_by, identity

_REMEDY = (
    "Copy the log too (its name begins with _), or rebuild it from the files by kafkad export maintain --rebuild-log"
)


class ParquetSink:
    """See `Sink`. The folder is on a disk, or in S3."""

    def __init__(self, folder: TableFolder) -> None:
        if not folder.is_local and not folder.out.startswith("s3://"):
            raise ExportFailed(f"{folder.out}: Parquet tables are on a disk or in S3; use --format delta")
        self._folder = folder
        self._log = ManifestLog(folder)

    def begins(self, state: TableState) -> Mapping[int, int]:
        return state.begins

    def check_store(self) -> None:
        self._folder.check_store()

    def state(self, partitions: Iterable[int]) -> TableState:
        last = self._log.last() or table_of_another_run(
            *(self._folder, "parquet", self._log.last, f"the log of the table, {LOG},", _REMEDY), looks_for_files=True
        )
        if last is None:
            return TableState(None, None, None, {}, -1)
        offsets = {int(partition): end for partition, end in last["offsets"].items()}
        known = (last["cluster_id"], UUID(last["topic_id"]), last["topic"])
        # Manifests of earlier versions have no timestamps.
        reached = {int(partition): time for partition, time in last.get("reached", {}).items()}
        begins = {int(partition): start for partition, start in last.get("begins", {}).items()}
        keeps, until = last.get("keeps", KEEP_ALL), last.get("complete_until")
        more = (begins, self._partition_by(last), last.get("has_earlier_topic", False))
        return TableState(*known, offsets, last["commit"], _columns(last), keeps, reached, until, *more)

    def recover(self) -> None:
        if self._folder.pending_files():
            self._table()

    def commit(self, state: TableState, commit: Commit) -> int:
        version = state.version + 1
        kept, new = self._replaced(state, commit) if commit.replaces(state) else ([], list(commit.files))
        begins, offsets = commit.reach(state)
        reached, complete_until = progress_after(state, commit)
        content = {
            "format": FORMAT,
            "commit": version,
            "cluster_id": commit.cluster_id,
            "topic": commit.topic,
            "topic_id": str(commit.topic_id),
            "offsets": {str(partition): end for partition, end in sorted(offsets.items())},
            "begins": {str(partition): start for partition, start in sorted(begins.items())},
            "ranges": [each._asdict() for each in commit.ranges],
            "lost": [each._asdict() for each in commit.lost],
            "skipped": [each._asdict() for each in commit.skipped],
            "files": [each._asdict() for each in (*kept, *new)],
            "keeps": commit.keeps,
            "partition_by": commit.partition_by,
            "has_earlier_topic": commit.has_earlier_topic(state),
            "run": commit.run_id,
            "reached": {str(partition): time for partition, time in sorted(reached.items())},
            "complete_until": complete_until,
            "schema": base64.b64encode(commit.schema.serialize().to_pybytes()).decode(),
            "time_ms": time.time_ns() // 1_000_000,
        }
        if not self._log.publish(version, content, (each.path for each in new)):
            remove(self._folder, set(new) - set(commit.files))
            raise CommitConflict(f"{self._folder.out}: another export has committed concurrently")
        with after_commit():
            if self._folder.is_local:
                self._folder.rename_pending(PendingFile(commit.run_id, file.path) for file in new)
            remove(self._folder, set(commit.files) - set(new))
        return version

    def _table(self) -> Table | None:
        """The table, after pending renames of committed files."""
        table = self._log.table()
        # In this order: a committed file that is no longer pending has its final name.
        pending_files = [] if table is None else self._folder.pending_files()
        if table is not None and pending_files:
            paths = {file.path for file in table.files}
            self._folder.rename_pending(each for each in pending_files if each.path in paths)
        return table

    def files(self) -> list[str]:
        table = self._table()
        return [] if table is None else [each.path for each in table.files]

    def kept(self, older_than_s: float) -> set[str] | None:
        table = self._table()
        if table is None:
            return None
        return {each.path for each in table.files} | {
            path for path, replaced_ms in table.replaced_ms.items() if replaced_ms > ago_ms(older_than_s)
        }

    def shorten_log(self, older_than_s: float) -> int:
        self._log.write_checkpoint(older_than_s)
        return self._log.remove_checkpointed(older_than_s)

    def merge_small(self, merging: Merging) -> Merged:
        table = self._table()
        if table is None:
            return Merged(0, 0)
        known = [
            TableFile(each.path, each.size, each.partition, each.first_offset, each.last_offset) for each in table.files
        ]
        groups = list(small_files(known, merging.target_file_bytes))
        if not groups or merging.is_dry_run:
            return Merged(sum(map(len, groups)), len(groups))
        self.check_store()
        layout = Layout(
            out=self._folder.out,
            topic=table.last["topic"],
            run_id=new_run_id(),
            schema=_columns(table.last),
            compression=merging.compression,
            identity=_identity(table.last),
        )
        return merge(self._folder, layout, groups, partial(self._replace, layout.run_id))

    def _replace(self, run_id: str, replaced: Sequence[TableFile], new: Sequence[WrittenFile]) -> None:
        """Commit after concurrent commits if all `replaced` files are still in the table. Raises `CommitConflict`."""
        paths = {file.path for file in replaced}
        while True:
            table = self._log.table()
            if table is None or not paths <= {file.path for file in table.files}:
                raise CommitConflict(f"{self._folder.out}: another writer has replaced files of the table concurrently")
            last = table.last
            stay = [file for file in table.files if file.path not in paths] if last.get("keeps") == KEEP_LATEST else []
            content = {
                **last,
                "format": FORMAT_OF_MERGES,
                "commit": last["commit"] + 1,
                "ranges": [],
                "lost": [],
                "skipped": [],
                "files": [each._asdict() for each in (*stay, *new)],
                "replaced": sorted(paths),
                "run": run_id,
                "time_ms": time.time_ns() // 1_000_000,
            }
            if self._log.publish(last["commit"] + 1, content, (each.path for each in new)):
                return

    def _partition_by(self, last: Any) -> str | None:
        """The option --partition-by. For manifests of earlier versions from the paths of files; None without files."""
        if "partition_by" in last:
            partition_by: str = last["partition_by"]
            return partition_by
        table = self._log.table()
        for file in () if table is None else table.files:
            return divided_by([name for name, each in ((DATE, file.date), (HOUR, file.hour)) if each is not None])
        return None

    def _replaced(self, state: TableState, commit: Commit) -> tuple[list[WrittenFile], list[WrittenFile]]:
        """The unchanged files of the table, and the files that are written for this commit."""
        seen = self._log.manifest(state.version)
        if seen is None:
            raise CommitConflict(f"{self._folder.out}: other exports have committed concurrently")
        known = [WrittenFile(**each) for each in seen["files"]]
        changed = changed_partitions(commit)

        def before(partition: int) -> Iterator[pa.RecordBatch]:
            paths = [each.path for each in known if each.partition == partition]
            return rows(self._folder, paths, commit.schema)

        new = rewrite_changed(self._folder, commit, before)
        return [each for each in known if each.partition not in changed], new


def _identity(manifest: Any) -> dict[str, str]:
    topic_id = UUID(manifest["topic_id"])
    return identity(manifest["cluster_id"], topic_id, manifest["topic"], manifest.get("keeps", KEEP_ALL))


def _columns(manifest: Any) -> pa.Schema:
    """The columns; manifests of earlier versions have no schema, because values were bytes."""
    if "schema" not in manifest:
        return RECORDS
    return pa.ipc.read_schema(pa.BufferReader(base64.b64decode(manifest["schema"])))
