"""A Delta table, through deltalake: files and end offsets are one commit of the table's log.

The end offset of each partition is a `txn` action, with cluster, topic id and partition in its app id. Further `txn`
actions have the largest timestamp of each partition and the marker of complete hours. The library accepts the same
action twice, so this sink compares the versions of the actions on the object that commits: a concurrent commit with
one of these app ids is then a conflict.
"""

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from math import ceil
from typing import Any
from uuid import UUID

from kafkad_lakehouse.export.problems import CommitConflict, ExportFailed, NotInstalled, after_commit
from kafkad_lakehouse.export.request import KEEP_ALL
from kafkad_lakehouse.export.sinks.foreign_files import table_of_another_run
from kafkad_lakehouse.export.sinks.merging import TableFile, merge, new_run_id, small_files
from kafkad_lakehouse.export.sinks.rewriting import remove, rows
from kafkad_lakehouse.export.sinks.sink import Commit, Merged, Merging, TableState
from kafkad_lakehouse.export.table_folder import TableFolder
from kafkad_lakehouse.export.values.columns import field_paths, plain
from kafkad_lakehouse.export.writing import PARTITIONS, Layout, WrittenFile, divided_by

try:
    import pyarrow as pa
    from deltalake import CommitProperties, DeltaTable, write_deltalake
    from deltalake.exceptions import CommitFailedError, DeltaError

    from kafkad_lakehouse.export.sinks.delta_actions import (
        NO_MARKER,
        add_action,
        app_id,
        begin_id,
        commit_properties,
        marker_id,
        time_id,
    )
except ImportError as error:
    raise NotInstalled("delta", "deltalake") from error

_IDENTITY = "kafkad.export"
_HOUR_S = 3600
_LOG = "_delta_log"
_REMEDY = f"Copy {_LOG} too, or export the topic to an empty folder"
_NEWEST_PLAIN_WRITER = 2
"""The newest writer version of Delta's protocol without table features that a commit must support."""


class DeltaSink:
    """See `Sink`. The first commit creates the table."""

    def __init__(self, folder: TableFolder, partition_by: str) -> None:
        check_name(folder)
        self._folder = folder
        self._partition_by: list[str] = PARTITIONS[partition_by]
        self._table: DeltaTable | None = None

    def state(self, partitions: Iterable[int]) -> TableState:
        table = self._load()
        if table is None:
            table = table_of_another_run(
                *(self._folder, "delta", self._load, f"the log of the table, {_LOG},", _REMEDY),
                looks_for_files=self._may_publish(),
            )
        self._table = table
        if table is None:
            return TableState(None, None, None, {}, -1)
        with self._reading():
            return self._state(table, partitions)

    def _state(self, table: DeltaTable, partitions: Iterable[int]) -> TableState:
        identity = table.metadata().configuration.get(_IDENTITY)
        if identity is None:
            raise ExportFailed(f"{self._folder.out} is a Delta table that was not created by an export")
        known = json.loads(identity)
        topic_id = UUID(known["topic_id"])
        offsets: dict[int, int] = {}
        reached: dict[int, int] = {}
        for partition in partitions:
            name = app_id(known["cluster_id"], topic_id, partition)
            for place, found in ((name, offsets), (time_id(name), reached)):
                version = table.transaction_version(place)
                if version is not None:
                    found[partition] = version
        columns = pa.schema(
            [field for field in pa.schema(table.schema().to_arrow()) if field.name not in self._partition_by]
        )
        of_topic = (known["cluster_id"], topic_id, known["topic"])
        marker = table.transaction_version(marker_id(known["cluster_id"], topic_id))
        complete_until = None if marker == NO_MARKER else marker
        keeps = known.get("keeps", KEEP_ALL)
        return TableState(
            *(*of_topic, offsets, table.version(), columns, keeps, reached, complete_until),
            partition_by=divided_by(table.metadata().partition_columns),
            has_earlier_topic=known.get("has_earlier_topic", False),
        )

    def begins(self, state: TableState) -> Mapping[int, int]:
        """Read separately from `state`: each offset takes the library some time, and runs do not need it."""
        table, cluster_id, topic_id = self._table, state.cluster_id, state.topic_id
        if table is None or cluster_id is None or topic_id is None:
            return {}
        with self._reading():
            found = {
                partition: table.transaction_version(begin_id(app_id(cluster_id, topic_id, partition)))
                for partition in state.offsets
            }
        return {partition: start for partition, start in found.items() if start is not None}

    def check_store(self) -> None:
        """Check S3 only: there the library commits with conditional PUTs, unless it locks with DynamoDB. For other
        stores the library knows the guarantees.
        """
        if self._folder.out.startswith("s3://") and os.environ.get("AWS_S3_LOCKING_PROVIDER") != "dynamodb":
            self._folder.check_store()

    def recover(self) -> None:
        """Nothing to do: readers take the paths of files from the log."""

    def commit(self, state: TableState, commit: Commit) -> int:
        table = self._table or self._create(state, commit)
        if state.version >= 0:
            self._prepare(table, state, commit)
        merges = commit.replaces(state)
        properties = commit_properties(state, commit)
        try:
            if not merges or not self._merge(table, commit, properties):
                table.create_write_transaction(
                    [] if merges else [add_action(file) for file in commit.files],
                    mode="append",
                    schema=self._schema(commit),
                    partition_by=self._partition_by,
                    commit_properties=properties,
                )
        except CommitFailedError as error:
            raise CommitConflict(f"{self._folder.out}: another export has committed concurrently: {error}") from error
        except (DeltaError, OSError) as error:
            raise ExportFailed(f"{self._folder.out} could not be committed to: {error}") from error
        with after_commit():
            with self._reading():
                table.update_incremental()
            if merges:
                remove(self._folder, commit.files)
        return table.version()

    def _merge(self, table: DeltaTable, commit: Commit, properties: CommitProperties) -> bool:
        """Merge the latest record of each key into the table. Returns False if the merge changes nothing, because the
        library then makes no commit.
        """
        if not commit.files:
            return False
        before = table.version()
        new = rows(self._folder, [file.path for file in commit.files], commit.schema)
        merger = table.merge(
            pa.RecordBatchReader.from_batches(commit.schema, new),
            predicate="t.partition = s.partition AND t.key = s.key",
            source_alias="s",
            target_alias="t",
            commit_properties=properties,
        )
        merger.when_matched_delete(predicate="s.value IS NULL AND s.offset > t.offset").when_matched_update_all(
            predicate="s.value IS NOT NULL AND s.offset > t.offset"
        ).when_not_matched_insert_all(predicate="s.value IS NOT NULL").execute()
        return table.version() > before

    def files(self) -> list[str]:
        table = self._load()
        if table is None:
            return []
        with self._reading():
            return sorted(_paths(table))

    def kept(self, older_than_s: float) -> set[str] | None:
        table = self._load()
        if table is None:
            return None
        with self._reading():
            replaced = _replaced(table, 0) - _replaced(table, ceil(older_than_s / _HOUR_S))
            return {*_paths(table), *replaced}

    def shorten_log(self, older_than_s: float) -> int:
        """Nothing to do: the library writes checkpoints."""
        return 0

    def merge_small(self, merging: Merging) -> Merged:
        """Write the commit without the library, which does not detect that a concurrent merge has replaced the same
        files, and would duplicate their rows.
        """
        table = self._table or self._load()
        if table is None or not self._may_publish():
            return Merged(0, 0)
        with self._reading():
            if not is_of_export(table):
                raise ExportFailed(f"{self._folder.out} is a Delta table that was not created by an export")
            groups = list(small_files(_table_files(table), merging.target_file_bytes))
            if not groups or not _is_plain(table):
                return Merged(0, 0)
            layout = self._layout(table, merging)
        if merging.is_dry_run:
            return Merged(sum(map(len, groups)), len(groups))
        self.check_store()
        return merge(self._folder, layout, groups, partial(self._replace, table))

    def _replace(self, table: DeltaTable, replaced: Sequence[TableFile], new: Iterable[WrittenFile]) -> None:
        """Commit after concurrent commits if all `replaced` files are still in the table. Raises `CommitConflict`."""
        content = _replacement(replaced, new)
        paths = {file.path for file in replaced}
        while not self._folder.publish(f"{_LOG}/{table.version() + 1:020d}.json", content):
            with self._reading():
                table = DeltaTable(self._folder.out)
                is_as_before = _is_plain(table) and paths <= {file.path for file in _table_files(table)}
            if not is_as_before:
                raise CommitConflict(f"{self._folder.out}: another writer has replaced files of the table concurrently")

    def _load(self) -> DeltaTable | None:
        """The table; None if it does not exist."""
        with self._reading():
            return DeltaTable(self._folder.out) if DeltaTable.is_deltatable(self._folder.out) else None

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except (DeltaError, OSError) as error:
            raise ExportFailed(f"{self._folder.out} can't be read: {error}") from error

    def _may_publish(self) -> bool:
        """Whether a commit is the creation of a file, on a disk or in S3 without DynamoDB."""
        if self._folder.is_local:
            return True
        return self._folder.out.startswith("s3://") and os.environ.get("AWS_S3_LOCKING_PROVIDER") != "dynamodb"

    def _layout(self, table: DeltaTable, merging: Merging) -> Layout:
        dates = table.metadata().partition_columns
        columns = [field for field in pa.schema(table.schema().to_arrow()) if field.name not in dates]
        return Layout(
            out=self._folder.out,
            topic=json.loads(table.metadata().configuration[_IDENTITY])["topic"],
            run_id=new_run_id(),
            schema=pa.schema([pa.field(field.name, plain(field.type)) for field in columns]),
            compression=merging.compression,
        )

    def _prepare(self, table: DeltaTable, state: TableState, commit: Commit) -> None:
        """Make changes that can't be in the same commit; they are harmless without the commit."""
        version = state.version
        try:
            if state.columns is not None and field_paths(commit.schema) != field_paths(state.columns):
                empty = self._schema(commit).empty_table()
                write_deltalake(table, empty, mode="append", schema_mode="merge")
                version += 1
            if state.topic_id != commit.topic_id:
                # From here on the offsets of the previous topic are ignored.
                table.alter.set_table_properties(_configuration(state, commit), raise_if_not_exists=False)
                version += 1
        except (DeltaError, OSError) as error:
            raise ExportFailed(f"{self._folder.out} could not be committed to: {error}") from error
        if table.version() != version:
            raise CommitConflict(f"{self._folder.out}: another export has committed concurrently")

    def _create(self, state: TableState, commit: Commit) -> DeltaTable:
        try:
            return DeltaTable.create(
                self._folder.out,
                self._schema(commit),
                mode="error",
                partition_by=self._partition_by,
                configuration=_configuration(state, commit),
                raise_if_key_not_exists=False,
            )
        except (DeltaError, OSError) as error:
            if self._load() is None:
                raise ExportFailed(f"{self._folder.out} could not be created: {error}") from error
            raise CommitConflict(f"{self._folder.out}: another export is creating this table: {error}") from error

    def _schema(self, commit: Commit) -> Any:
        return pa.schema([*commit.schema, *(pa.field(name, pa.string()) for name in self._partition_by)])


def check_name(folder: TableFolder) -> None:
    """Reject names that the library decodes twice. Raises `ExportFailed`."""
    for each in "%\\":
        if each in folder.root:
            raise ExportFailed(f"{folder.out}: a Delta table can't be in a folder with {each} in its name")


def _configuration(state: TableState, commit: Commit) -> dict[str, str]:
    identity: dict[str, Any] = {"cluster_id": commit.cluster_id, "topic": commit.topic}
    identity["topic_id"] = str(commit.topic_id)
    if commit.keeps != KEEP_ALL:
        identity["keeps"] = commit.keeps
    if commit.has_earlier_topic(state):
        identity["has_earlier_topic"] = True
    return {_IDENTITY: json.dumps(identity)}


def is_of_export(table: DeltaTable) -> bool:
    return _IDENTITY in table.metadata().configuration


def _paths(table: DeltaTable) -> list[str]:
    found: list[str] = pa.table(table.get_add_actions()).column("path").to_pylist()
    return found


def _replaced(table: DeltaTable, hours: int) -> set[str]:
    """The files that were replaced at least `hours` hours ago, as far as the log has them."""
    return set(table.vacuum(hours, dry_run=True, enforce_retention_duration=False))


def _is_plain(table: DeltaTable) -> bool:
    """Whether the table has no features that a commit must support; another engine may have enabled one."""
    protocol = table.protocol()
    return protocol.min_reader_version == 1 and protocol.min_writer_version <= _NEWEST_PLAIN_WRITER


def _table_files(table: DeltaTable) -> Iterator[TableFile]:
    for row in pa.table(table.get_add_actions(flatten=True)).to_pylist():
        first, last = row.get("min.partition"), row.get("max.partition")
        if first is not None and first == last:
            yield TableFile(row["path"], row["size_bytes"], first, row["min.offset"], row["max.offset"])


def _replacement(replaced: Iterable[TableFile], new: Iterable[WrittenFile]) -> bytes:
    """A commit that replaces files by other files with the same rows."""
    now_ms = time.time_ns() // 1_000_000
    info = {"timestamp": now_ms, "operation": "OPTIMIZE", "operationParameters": {}, "engineInfo": "kafkad"}
    actions: list[dict[str, Any]] = [{"commitInfo": info}]
    for file in replaced:
        actions.append({"remove": {"path": file.path, "deletionTimestamp": now_ms, "dataChange": False}})
    for written in new:
        added = add_action(written)
        actions.append(
            {
                "add": {
                    "path": added.path,
                    "partitionValues": added.partition_values,
                    "size": added.size,
                    "modificationTime": added.modification_time,
                    "dataChange": False,
                    "stats": added.stats,
                }
            }
        )
    return "".join(f"{json.dumps(action)}\n" for action in actions).encode()
