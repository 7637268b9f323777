"""The files of an Iceberg table as its manifests have them, and the snapshot that has others for the same rows."""

from collections.abc import Iterable, Iterator
from typing import Any

from pyiceberg.conversions import from_bytes
from pyiceberg.io.pyarrow import parquet_files_to_data_files
from pyiceberg.manifest import DataFile, ManifestContent, ManifestEntryStatus, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update.snapshot import _OverwriteFiles


class _Replacement(_OverwriteFiles):
    """The library knows overwrites only, at which streams stop; a snapshot that changes no row is passed over."""

    def _summary(self, *properties: Any) -> Summary:
        summary = super()._summary(*properties)
        return Summary(Operation.REPLACE, **summary.additional_properties)


def replace_files(table: Table, gone: Iterable[DataFile], paths: Iterable[str], properties: dict[str, str]) -> None:
    """One commit, conditional on the snapshot that `table` has. Raises what the library does."""
    transaction = table.transaction()
    replacement = _Replacement(Operation.OVERWRITE, transaction, table.io, snapshot_properties=properties)
    with replacement as files:
        for each in gone:
            files.delete_data_file(each)
        for each in parquet_files_to_data_files(table.io, transaction.table_metadata, iter(paths)):
            files.append_data_file(each)
    transaction.commit_transaction()


def data_files(table: Table) -> Iterator[DataFile]:
    snapshot = table.current_snapshot()
    for manifest in snapshot.manifests(table.io) if snapshot is not None else []:
        if manifest.content == ManifestContent.DATA:
            for entry in manifest.fetch_manifest_entry(table.io):
                yield entry.data_file


def has_deleted_rows(table: Table) -> bool:
    """Whether files of other engines say which rows of data files do not count: they would not, of other files."""
    snapshot = table.current_snapshot()
    return snapshot is not None and any(
        manifest.content == ManifestContent.DELETES for manifest in snapshot.manifests(table.io)
    )


def kept_files(table: Table, since_ms: int) -> Iterator[str]:
    """The files that the table has, and those that a snapshot has replaced or deleted since then, as far as it has not
    expired. Each manifest is read once.
    """
    manifests: dict[str, ManifestFile] = {}
    current: set[str] = set()
    replacing: set[str] = set()
    for snapshot in table.snapshots():
        is_current = snapshot.snapshot_id == table.metadata.current_snapshot_id
        is_append = snapshot.summary is not None and snapshot.summary.operation == Operation.APPEND
        replaces = not is_append and snapshot.timestamp_ms >= since_ms
        for manifest in snapshot.manifests(table.io) if is_current or replaces else []:
            if manifest.content != ManifestContent.DATA:
                continue
            manifests[manifest.manifest_path] = manifest
            if is_current:
                current.add(manifest.manifest_path)
            if replaces and manifest.added_snapshot_id == snapshot.snapshot_id:
                replacing.add(manifest.manifest_path)
    for path in current | replacing:
        for entry in manifests[path].fetch_manifest_entry(table.io, discard_deleted=False):
            if path in (replacing if entry.status == ManifestEntryStatus.DELETED else current):
                yield entry.data_file.file_path


def bounds(table: Table, file: DataFile, column: str) -> tuple[Any, Any]:
    """The smallest and the largest value of this column; None where nobody has written it down."""
    field: Any = table.schema().find_field(column)
    raw = [(each or {}).get(field.field_id) for each in (file.lower_bounds, file.upper_bounds)]
    smallest, largest = (None if each is None else from_bytes(field.field_type, each) for each in raw)
    return smallest, largest
