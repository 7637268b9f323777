"""The files in the manifests of an Iceberg table, and commits that add or replace files."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile, ManifestContent, ManifestEntryStatus, ManifestFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table, TableProperties, Transaction, _parquet_files_to_data_files
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update.snapshot import _OverwriteFiles
from pyiceberg.transforms import DayTransform, HourTransform, Transform

from kafkad_lakehouse.export.writing import DATE, HOUR, WrittenFile, hour_number

_SPECS: dict[tuple[tuple[str, str | None], ...], str] = {
    (): "none",
    (("day", "timestamp"),): "day",
    (("hour", "timestamp"),): "hour",
    (("identity", DATE),): "day",
    (("identity", DATE), ("identity", HOUR)): "hour",
}
"""The last two are from earlier versions of kafkad, with text columns."""
TRANSFORMS: dict[str, Transform[Any, Any]] = {"day": DayTransform(), "hour": HourTransform()}
_HOURS = {"day": 24, "hour": 1}


class _Replacement(_OverwriteFiles):
    """A snapshot with operation "replace", which streaming readers skip. The library only has "overwrite"."""

    def _summary(self, *properties: Any) -> Summary:
        summary = super()._summary(*properties)
        return Summary(Operation.REPLACE, **summary.additional_properties)


def divided_by(table: Table) -> str | None:
    """none, day or hour; None if another engine has changed the partition spec."""
    return _SPECS.get(tuple(_divisions(table.spec(), table.schema())))


def date_columns(table: Table) -> list[str]:
    """The columns date and hour of a table partitioned by their values, as earlier versions of kafkad created it."""
    divisions = _divisions(table.spec(), table.schema())
    return [column for function, column in divisions if function == "identity" and column in (DATE, HOUR)]


def _divisions(spec: PartitionSpec, schema: Schema) -> list[tuple[str, str | None]]:
    """The transforms of the partition spec, with their columns."""
    return [(str(field.transform), schema.find_column_name(field.source_id)) for field in spec.fields]


def add_files(transaction: Transaction, files: Sequence[tuple[str, WrittenFile]], properties: dict[str, str]) -> None:
    """As the library's `add_files`, but also for files without statistics of times."""
    metadata = transaction.table_metadata
    if metadata.name_mapping() is None:
        mapping = metadata.schema().name_mapping.model_dump_json()
        transaction.set_properties({TableProperties.DEFAULT_NAME_MAPPING: mapping})
    with transaction._append_snapshot_producer(properties) as appended:
        for each in _data_files(transaction, files):
            appended.append_data_file(each)


def _data_files(transaction: Transaction, files: Sequence[tuple[str, WrittenFile]]) -> Iterator[DataFile]:
    """The data files with the partition values from date and hour."""
    metadata = transaction.table_metadata
    functions = [function for function, _ in _divisions(metadata.spec(), metadata.schema())]
    found = _parquet_files_to_data_files(metadata, [path for path, _ in files], transaction._table.io)
    for data_file, (_, file) in zip(found, files, strict=True):
        hours = hour_number(file.date, file.hour)
        for number, function in enumerate(functions):
            if function in _HOURS:
                data_file.partition[number] = None if hours is None else hours // _HOURS[function]
        yield data_file


def replace_files(
    table: Table, removed: Iterable[DataFile], new: Sequence[tuple[str, WrittenFile]], properties: dict[str, str]
) -> None:
    """Make one commit, conditional on the snapshot of `table`. Raises exceptions of the library."""
    transaction = table.transaction()
    replacement = _Replacement(Operation.OVERWRITE, transaction, table.io, snapshot_properties=properties)
    with replacement as files:
        for each in removed:
            files.delete_data_file(each)
        for each in _data_files(transaction, new):
            files.append_data_file(each)
    transaction.commit_transaction()


def data_files(table: Table) -> Iterator[DataFile]:
    snapshot = table.current_snapshot()
    for manifest in snapshot.manifests(table.io) if snapshot is not None else []:
        if manifest.content == ManifestContent.DATA:
            for entry in manifest.fetch_manifest_entry(table.io):
                yield entry.data_file


def has_deleted_rows(table: Table) -> bool:
    """Whether the table has deletion files of other engines, which refer to data files."""
    snapshot = table.current_snapshot()
    return snapshot is not None and any(
        manifest.content == ManifestContent.DELETES for manifest in snapshot.manifests(table.io)
    )


def kept_files(table: Table, since_ms: int) -> Iterator[str]:
    """The files of the table, and the files that unexpired snapshots replaced or deleted since `since_ms`. Reads each
    manifest once.
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
    """The smallest and the largest value of this column; None without statistics."""
    field: Any = table.schema().find_field(column)
    raw = [(each or {}).get(field.field_id) for each in (file.lower_bounds, file.upper_bounds)]
    smallest, largest = (None if each is None else from_bytes(field.field_type, each) for each in raw)
    return smallest, largest
