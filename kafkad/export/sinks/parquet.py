"""A folder of Parquet files with a log of manifests: file N of `_kafkad_log` is commit N; the first to create it wins.

Readers that want exactly what was committed take the paths from the manifests (`kafkad export files`); files that no
manifest names are left over from a run that was killed. A manifest may also name files of earlier ones that it has
replaced, when small files were merged. Of a table of the latest of each key a manifest names all files: each commit is
a snapshot, and the newest one counts.
"""

import base64
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

import pyarrow as pa

from kafkad.export.places import TableFolder
from kafkad.export.problems import AnotherExport, ExportFailed, after_commit
from kafkad.export.schema import RECORDS
from kafkad.export.sinks.complete_hours import carried
from kafkad.export.sinks.merging import KnownFile, merge, new_run_id, small_files
from kafkad.export.sinks.rewriting import changed_partitions, remove, rewrite_changed, rows
from kafkad.export.sinks.sink import Commit, Merged, Merging, TableState
from kafkad.export.sinks.strangers import check_strangers
from kafkad.export.wanted import KEEP_ALL, KEEP_LATEST
from kafkad.export.writing import DATE, HOUR, Layout, WrittenFile, divided_by

LOG = "_kafkad_log"
_FORMAT, _FORMAT_OF_MERGES = 1, 2
"""Who does not know the second one would read files that were replaced, and has to stop there."""


class ParquetSink:
    """See `Sink`. The folder is on a disk, or in S3."""

    def __init__(self, folder: TableFolder) -> None:
        if not folder.is_local and not folder.out.startswith("s3://"):
            raise ExportFailed(f"{folder.out}: Parquet tables are on a disk or in S3; use --format delta")
        self._folder = folder

    def begins(self, state: TableState) -> Mapping[int, int]:
        return state.begins

    def check_store(self) -> None:
        self._folder.check_store()

    def state(self, partitions: Iterable[int]) -> TableState:
        versions = self._names()
        if not versions:
            check_strangers(self._folder, "parquet")
            return TableState(None, None, None, {}, -1)
        last = self._read(versions[-1])
        offsets = {int(partition): end for partition, end in last["offsets"].items()}
        known = (last["cluster_id"], UUID(last["topic_id"]), last["topic"])
        # Those of earlier versions say nothing of their timestamps.
        reached = {int(partition): time for partition, time in last.get("reached", {}).items()}
        begins = {int(partition): start for partition, start in last.get("begins", {}).items()}
        keeps, until = last.get("keeps", KEEP_ALL), last.get("complete_until")
        more = (begins, self._partition_by(versions), last.get("has_earlier_topic", False))
        return TableState(*known, offsets, last["commit"], _columns(last), keeps, reached, until, *more)

    def commit(self, state: TableState, commit: Commit) -> int:
        version = state.version + 1
        kept, new = self._replaced(state, commit) if commit.replaces(state) else ([], list(commit.files))
        begins, offsets = commit.reach(state)
        reached, complete_until = carried(state, commit)
        content = {
            "format": _FORMAT,
            "commit": version,
            "cluster_id": commit.cluster_id,
            "topic": commit.topic,
            "topic_id": str(commit.topic_id),
            "offsets": {str(partition): end for partition, end in sorted(offsets.items())},
            "begins": {str(partition): start for partition, start in sorted(begins.items())},
            "ranges": [each._asdict() for each in commit.ranges],
            "lost": [each._asdict() for each in commit.lost],
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
        if not self._folder.publish(_manifest(version), json.dumps(content).encode()):
            remove(self._folder, set(new) - set(commit.files))
            raise AnotherExport(f"{self._folder.out}: another export has committed meanwhile")
        with after_commit():
            remove(self._folder, set(commit.files) - set(new))
        return version

    def files(self) -> list[str]:
        return [each.path for each in _history(self._manifests()).files]

    def kept(self, older_than_s: float) -> set[str] | None:
        manifests = self._manifests()
        if not manifests:
            return None
        history = _history(manifests)
        since_ms = time.time() * 1_000 - older_than_s * 1_000
        return {each.path for each in history.files} | {
            path for path, replaced_ms in history.replaced_ms.items() if replaced_ms > since_ms
        }

    def merge_small(self, merging: Merging) -> Merged:
        manifests = self._manifests()
        if not manifests:
            return Merged(0, 0)
        known = [
            KnownFile(each.path, each.size, each.partition, each.first_offset, each.last_offset)
            for each in _history(manifests).files
        ]
        groups = list(small_files(known, merging.target_file_bytes))
        if not groups or merging.is_dry_run:
            return Merged(sum(map(len, groups)), len(groups))
        self.check_store()
        layout = Layout(
            out=self._folder.out,
            topic=manifests[-1]["topic"],
            run_id=new_run_id(),
            schema=_columns(manifests[-1]),
            compression=merging.compression,
        )
        return merge(self._folder, layout, groups, partial(self._replace, manifests, layout.run_id))

    def _replace(
        self, manifests: Sequence[Any], run_id: str, replaced: Sequence[KnownFile], new: Sequence[WrittenFile]
    ) -> None:
        """Behind whatever was committed meanwhile, if these files are all there still. Raises `AnotherExport`."""
        paths = {file.path for file in replaced}
        while True:
            there = _history(manifests).files
            if not paths <= {file.path for file in there}:
                raise AnotherExport(f"{self._folder.out}: somebody else has replaced its files meanwhile")
            last = manifests[-1]
            stay = [file for file in there if file.path not in paths] if last.get("keeps") == KEEP_LATEST else []
            content = {
                **last,
                "format": _FORMAT_OF_MERGES,
                "commit": last["commit"] + 1,
                "ranges": [],
                "lost": [],
                "files": [each._asdict() for each in (*stay, *new)],
                "replaced": sorted(paths),
                "run": run_id,
                "time_ms": time.time_ns() // 1_000_000,
            }
            if self._folder.publish(_manifest(last["commit"] + 1), json.dumps(content).encode()):
                return
            manifests = self._manifests()

    def _manifests(self) -> list[Any]:
        """Of all commits, in their order. Raises `ExportFailed` if one is missing."""
        names = self._names()
        for version, name in enumerate(names):
            if name != _manifest(version):
                raise ExportFailed(f"{self._folder.out}/{_manifest(version)} is missing: a commit of the table")
        return [self._read(name) for name in names]

    def _names(self) -> list[str]:
        names = self._folder.names(LOG)
        return [name for name in names if name.endswith(".json") and not name.startswith(f"{LOG}/.")]

    def _partition_by(self, versions: Sequence[str]) -> str | None:
        """Manifests of earlier versions do not say it, but where their files are. None: the table has had no file."""
        for name in reversed(versions):
            manifest = self._read(name)
            if "partition_by" in manifest:
                said: str = manifest["partition_by"]
                return said
            for file in manifest["files"]:
                return divided_by([each for each in (DATE, HOUR) if file[each] is not None])
        return None

    def _replaced(self, state: TableState, commit: Commit) -> tuple[list[WrittenFile], list[WrittenFile]]:
        """The files of the table that stay, and those that are written for this commit."""
        known = [WrittenFile(**each) for each in self._read(_manifest(state.version))["files"]]
        changed = changed_partitions(commit)

        def before(partition: int) -> Iterator[pa.RecordBatch]:
            paths = [each.path for each in known if each.partition == partition]
            return rows(self._folder, paths, commit.schema)

        new = rewrite_changed(self._folder, commit, before)
        return [each for each in known if each.partition not in changed], new

    def _read(self, name: str) -> Any:
        try:
            content = json.loads(self._folder.read(name))
        except ValueError as error:
            raise ExportFailed(f"{self._folder.out}/{name} is damaged: {error}") from error
        if content.get("format") not in (_FORMAT, _FORMAT_OF_MERGES):
            raise ExportFailed(f"{self._folder.out}/{name} is of a newer kafkad")
        return content


class _History(NamedTuple):
    """The files of the table, and when others were replaced, in milliseconds since 1970."""

    files: list[WrittenFile]
    replaced_ms: dict[str, int]


def _history(manifests: Iterable[Any]) -> _History:
    files: list[WrittenFile] = []
    replaced_ms: dict[str, int] = {}
    for manifest in manifests:
        new = [WrittenFile(**each) for each in manifest["files"]]
        if manifest.get("keeps") == KEEP_LATEST:
            replaced = {each.path for each in files} - {each.path for each in new}
            files = new
        else:
            replaced = set(manifest.get("replaced", ()))
            if replaced:
                files = [each for each in files if each.path not in replaced]
            files += new
        replaced_ms |= dict.fromkeys(replaced, manifest["time_ms"])
    return _History(files, replaced_ms)


def _manifest(version: int) -> str:
    return f"{LOG}/{version:020d}.json"


def _columns(manifest: Any) -> pa.Schema:
    """Manifests of earlier versions say nothing: values were bytes."""
    if "schema" not in manifest:
        return RECORDS
    return pa.ipc.read_schema(pa.BufferReader(base64.b64decode(manifest["schema"])))
