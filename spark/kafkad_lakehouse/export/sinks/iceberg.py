"""An Iceberg table, through pyiceberg: files and end offsets are one commit of the catalog.

The offsets are a property of the table, because snapshots expire. Each commit creates a snapshot, even without files,
and is conditional on the snapshot from which the offsets were read. Retries of the library are disabled: they would add
the same records again.
"""

import json
import logging
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

from kafkad_lakehouse.export.problems import CommitConflict, ExportFailed, NotInstalled, after_commit
from kafkad_lakehouse.export.request import KEEP_ALL
from kafkad_lakehouse.export.sinks.complete_hours import progress_after
from kafkad_lakehouse.export.sinks.foreign_files import table_of_another_run
from kafkad_lakehouse.export.sinks.merging import TableFile, merge, new_run_id, small_files
from kafkad_lakehouse.export.sinks.rewriting import discard_rejected, fitted, remove, rewrite_changed
from kafkad_lakehouse.export.sinks.sink import Commit, Merged, Merging, TableState
from kafkad_lakehouse.export.table_folder import TableFolder, normalized
from kafkad_lakehouse.export.values.columns import field_paths, plain
from kafkad_lakehouse.export.writing import Layout, WrittenFile

try:
    import pyarrow as pa
    from pyiceberg.catalog import Catalog, load_catalog
    from pyiceberg.exceptions import (
        CommitFailedException,
        NamespaceAlreadyExistsError,
        NoSuchNamespaceError,
        NoSuchTableError,
        NotInstalledError,
        RESTError,
        TableAlreadyExistsError,
        ValidationError,
    )
    from pyiceberg.exceptions import ValidationException as ConflictError
    from pyiceberg.table import Table, Transaction
    from sqlalchemy.engine import URL
    from sqlalchemy.exc import IntegrityError, OperationalError, ProgrammingError, SQLAlchemyError

    from kafkad_lakehouse.export.sinks.iceberg_files import (
        TRANSFORMS,
        add_files,
        bounds,
        data_files,
        date_columns,
        divided_by,
        has_deleted_rows,
        kept_files,
        replace_files,
    )
except ImportError as error:
    raise NotInstalled("iceberg", "pyiceberg") from error

_IDENTITY = "kafkad.export"
_CATALOG = "_catalog.db"
_REMEDY = (
    f"Use its --catalog and --table, or copy the catalog too ({_CATALOG} if there was no --catalog), or export the"
    " topic to an empty folder"
)
_CREATIONS = 5
"""Attempts to open a SQL catalog whose tables other processes create."""
_LATER_STATE = re.compile(r"metadata/(?!00000)\d{5}-.+\.metadata\.json")
"""Metadata after the first commit. A run that was killed before it updated the catalog may leave the first file."""
# The library warns of each column without statistics in each file; statistics are omitted on purpose.
logging.getLogger("pyiceberg.io.pyarrow").setLevel(logging.ERROR)
_FAULTS = (ValueError, OSError, ValidationError, RESTError, SQLAlchemyError, NotInstalledError)


class IcebergSink:
    """See `Sink`.

    `catalog`: an address (sqlite:///…, http://…), the name of a catalog in pyiceberg's configuration, or empty for a
    file in the table's folder. `name`: namespace and table.
    """

    def __init__(self, folder: TableFolder, partition_by: str, catalog: str, name: str) -> None:
        self._folder = folder
        self._partition_by = partition_by
        self._location = folder.root if folder.is_local else folder.out.rstrip("/")
        self._catalog_address = catalog
        self._name = name
        self._table: Table | None = None
        self._opened: Catalog | None = None
        if not catalog and not folder.is_local:
            raise ExportFailed(f"{folder.out}: an Iceberg table there needs a catalog: --catalog")

    def state(self, partitions: Iterable[int]) -> TableState:
        table = self._load()
        if table is None:
            if any(map(_LATER_STATE.fullmatch, self._folder.names("metadata"))):
                raise ExportFailed(
                    f"{self._folder.out} has an Iceberg table that is not {self._name} of this catalog: use another"
                    " folder, or its --catalog and --table"
                )
            table = table_of_another_run(
                *(self._folder, "iceberg", self._load, f"{self._name} of its catalog", _REMEDY),
                looks_for_files=self._folder.is_local,
            )
        self._table = table
        if table is None:
            return TableState(None, None, None, {}, -1)
        known = self._identity(table)
        offsets = {int(partition): end for partition, end in known["offsets"].items()}
        columns = _columns(table)
        version = table.metadata.current_snapshot_id
        of_topic = (known["cluster_id"], UUID(known["topic_id"]), known["topic"])
        reached = {int(partition): time for partition, time in known.get("reached", {}).items()}
        begins = {int(partition): start for partition, start in known.get("begins", {}).items()}
        keeps, until = known.get("keeps", KEEP_ALL), known.get("complete_until")
        more = (begins, divided_by(table), known.get("has_earlier_topic", False))
        return TableState(
            *of_topic, offsets, version or 0, columns, keeps, reached, until, *more, has_dates=bool(date_columns(table))
        )

    def begins(self, state: TableState) -> Mapping[int, int]:
        return state.begins

    def check_store(self) -> None:
        """Nothing to do: the catalog makes commits atomic."""

    def recover(self) -> None:
        """Nothing to do: readers take the paths of files from the catalog."""

    def commit(self, state: TableState, commit: Commit) -> int:
        begins, offsets = commit.reach(state)
        reached, complete_until = progress_after(state, commit)
        left_out = {"lost": list(map(tuple, commit.lost)), "skipped": list(map(tuple, commit.skipped))}
        details = {"run": commit.run_id, "completeUntil": complete_until, **left_out}
        files = commit.files
        try:
            transaction = self._begin(state, commit)
            transaction.set_properties(
                _properties(
                    commit, offsets, begins, reached, complete_until, has_earlier_topic=commit.has_earlier_topic(state)
                )
            )
            if commit.replaces(state):
                files = self._replace(transaction, commit)
            add_files(transaction, self._located(files), {"kafkad": json.dumps(details)})
            table = transaction.commit_transaction()
        except (CommitFailedException, ConflictError, TableAlreadyExistsError) as error:
            discard_rejected(self._folder, self, set(files) - set(commit.files))
            raise CommitConflict(f"{self._folder.out}: another export has committed concurrently: {error}") from error
        except _FAULTS as error:
            raise ExportFailed(f"{self._folder.out} could not be committed to: {_reason(error)}") from error
        self._table = table
        with after_commit():
            remove(self._folder, set(commit.files) - set(files))
        return len(table.metadata.snapshots)

    def _replace(self, transaction: Transaction, commit: Commit) -> list[WrittenFile]:
        """Delete the rows of partitions with new records. Returns the files with the new rows of these partitions."""
        table = self._table
        assert table is not None

        def before(partition: int) -> list[pa.RecordBatch]:
            of_partition = f"partition == {partition}"
            found = [fitted(each, commit.schema) for each in table.scan(of_partition).to_arrow_batch_reader()]
            if any(each.num_rows for each in found):
                transaction.delete(of_partition)
            return found

        return rewrite_changed(self._folder, commit, before)

    def files(self) -> list[str]:
        table = self._load()
        if table is None:
            return []
        with self._reading():
            return sorted(self._path(task.file.file_path) for task in table.scan().plan_files())

    def kept(self, older_than_s: float) -> set[str] | None:
        table = self._load()
        if table is None:
            return None
        with self._reading():
            since_ms = time.time_ns() // 1_000_000 - round(older_than_s * 1_000)
            return set(map(self._path, kept_files(table, since_ms)))

    def shorten_log(self, older_than_s: float) -> int:
        """Nothing to do: the library maintains the metadata."""
        return 0

    def merge_small(self, merging: Merging) -> Merged:
        table = self._load()
        if table is None:
            return Merged(0, 0)
        topic = self._identity(table)["topic"]
        with self._reading():
            known = list(self._table_files(table))
        groups = list(small_files(known, merging.target_file_bytes))
        if not groups or merging.is_dry_run:
            return Merged(sum(map(len, groups)), len(groups))
        layout = Layout(
            out=self._folder.out,
            topic=topic,
            run_id=new_run_id(),
            schema=_columns(table),
            has_dates=bool(date_columns(table)),
            by_transform=not date_columns(table),
            compression=merging.compression,
        )
        return merge(self._folder, layout, groups, partial(self._replace_files, table, layout.run_id))

    def _table_files(self, table: Table) -> Iterator[TableFile]:
        """The files that may be replaced: none of a table with deletion files or an unknown partition spec."""
        if has_deleted_rows(table) or divided_by(table) is None:
            return
        for file in data_files(table):
            path, (first, last) = self._path(file.file_path), bounds(table, file, "partition")
            if file.spec_id == table.spec().spec_id and first is not None and first == last:
                yield TableFile(path, file.file_size_in_bytes, first, *bounds(table, file, "offset"))

    def _replace_files(
        self, table: Table, run_id: str, replaced: Sequence[TableFile], new: Sequence[WrittenFile]
    ) -> None:
        """Commit after concurrent commits if all `replaced` files are still in the table. Raises `CommitConflict`."""
        paths = {file.path for file in replaced}
        while True:
            with self._reading():
                known = {file.path for file in self._table_files(table)}
                removed = [file for file in data_files(table) if self._path(file.file_path) in paths]
            if not paths <= known:
                raise CommitConflict(f"{self._folder.out}: another writer has replaced files of the table concurrently")
            until = self._identity(table).get("complete_until")
            details = json.dumps({"run": run_id, "completeUntil": until, "lost": []})
            try:
                replace_files(table, removed, self._located(new), {"kafkad": details})
            except (CommitFailedException, ConflictError):
                with self._reading():
                    table = table.refresh()
            except _FAULTS as error:
                raise ExportFailed(f"{self._folder.out} could not be committed to: {_reason(error)}") from error
            else:
                return

    def _located(self, files: Iterable[WrittenFile]) -> list[tuple[str, WrittenFile]]:
        return [(f"{self._location}/{file.path}", file) for file in files]

    def _path(self, full: str) -> str:
        return full.removeprefix("file://").removeprefix(f"{self._location}/")

    def _identity(self, table: Table) -> dict[str, Any]:
        identity = table.properties.get(_IDENTITY)
        if identity is None:
            raise ExportFailed(f"{self._name} is an Iceberg table that was not created by an export")
        found: dict[str, Any] = json.loads(identity)
        return found

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except _FAULTS as error:
            raise ExportFailed(f"{self._folder.out} can't be read: {_reason(error)}") from error

    def _load(self) -> Table | None:
        try:
            catalog = self._catalog()
            table = None if catalog is None else catalog.load_table(self._name)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None
        except FileNotFoundError as error:
            raise ExportFailed(
                f"{self._name} can't be read from its catalog: {error}. Paths in an Iceberg table are absolute: its"
                " folder can't be moved"
            ) from error
        except _FAULTS as error:
            raise ExportFailed(f"{self._name} can't be read from its catalog: {_reason(error)}") from error
        if table is not None:
            self._check_location(table)
        return table

    def _check_location(self, table: Table) -> None:
        """Take the path of the folder from the table, which may be another path of the same folder.

        Raises `ExportFailed` if it is another folder: the catalog was copied or moved with the folder.
        """
        location = normalized(table.location()).removeprefix("file://").rstrip("/")
        if location == self._location:
            return
        if not self._folder.is_local or not _is_same(location, self._location):
            raise ExportFailed(
                f"{self._name} of the catalog is in {location}, not in {self._folder.out}: use that folder. Paths in an"
                " Iceberg table are absolute, so its folder can't be moved or copied"
            )
        self._location = location

    def _begin(self, state: TableState, commit: Commit) -> Transaction:
        """A transaction on the table, or on a new table that the commit creates."""
        if self._table is not None:
            transaction = self._table.transaction()
            if state.columns is not None and field_paths(commit.schema) != field_paths(state.columns):
                names = [pa.field(name, pa.string()) for name in date_columns(self._table)]
                with transaction.update_schema() as update:
                    update.union_by_name(pa.schema([*commit.schema, *names]))
            return transaction
        catalog = self._catalog(is_made=True)
        assert catalog is not None
        namespace = self._name.rpartition(".")[0]
        make_namespace(catalog, namespace)
        transaction = catalog.create_table_transaction(
            self._name, commit.schema, location=self._location, properties={"commit.retry.num-retries": "0"}
        )
        if self._partition_by != "none":
            with transaction.update_spec() as spec:
                spec.add_field("timestamp", TRANSFORMS[self._partition_by], f"timestamp_{self._partition_by}")
        return transaction

    def _catalog(self, *, is_made: bool = False) -> Catalog | None:
        """The catalog; None if its file does not exist, unless `is_made`."""
        if self._opened is None:
            address = self._catalog_address
            if not address:
                file = Path(self._folder.root, _CATALOG)
                if not is_made and not file.exists():
                    return None
                file.parent.mkdir(parents=True, exist_ok=True)
                # A path may have special characters of a URL.
                address = URL.create("sqlite", database=str(file)).render_as_string(hide_password=False)
            self._opened = open_catalog(address)
        return self._opened


def _columns(table: Table) -> pa.Schema:
    """The columns of the table without date and hour."""
    dates = date_columns(table)
    fields = [field for field in table.schema().as_arrow() if field.name not in dates]
    return pa.schema([pa.field(field.name, plain(field.type)) for field in fields])


def make_namespace(catalog: Catalog, namespace: str) -> None:
    """Create the namespace if it does not exist. A SQL catalog raises IntegrityError for a concurrent creation."""
    try:
        catalog.create_namespace(namespace)
    except NamespaceAlreadyExistsError:
        pass
    except IntegrityError:
        if not catalog.namespace_exists(namespace):
            raise


def _is_same(path: str, other: str) -> bool:
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False


def _reason(error: Exception) -> str:
    """The message without the SQL statement."""
    return str(error).partition("\n")[0] if isinstance(error, SQLAlchemyError) else str(error)


def open_catalog(address: str) -> Catalog:
    if "://" not in address:
        return load_catalog(address)
    if address.startswith(("http://", "https://")):
        return load_catalog("kafkad", type="rest", uri=address, **_store_options())
    # A SQL catalog creates its tables; that fails if another process creates them at the same time.
    for _ in range(_CREATIONS - 1):
        with suppress(OperationalError, ProgrammingError, IntegrityError):
            return load_catalog("kafkad", type="sql", uri=address, **_store_options())
    return load_catalog("kafkad", type="sql", uri=address, **_store_options())


def _store_options() -> dict[str, str]:
    """The address of a store other than Amazon's, from the same variables as for pyarrow and deltalake."""
    found = {"s3.endpoint": os.environ.get("AWS_ENDPOINT_URL", ""), "s3.region": os.environ.get("AWS_REGION", "")}
    return {name: value for name, value in found.items() if value}


def _properties(
    commit: Commit,
    offsets: Mapping[int, int],
    begins: Mapping[int, int],
    reached: Mapping[int, int],
    complete_until: int | None,
    *,
    has_earlier_topic: bool,
) -> dict[str, str]:
    identity: dict[str, Any] = {
        "cluster_id": commit.cluster_id,
        "topic_id": str(commit.topic_id),
        "topic": commit.topic,
        "offsets": {str(partition): end for partition, end in sorted(offsets.items())},
        "begins": {str(partition): start for partition, start in sorted(begins.items())},
        "keeps": commit.keeps,
        "reached": {str(partition): time for partition, time in sorted(reached.items())},
        "complete_until": complete_until,
        "has_earlier_topic": has_earlier_topic,
    }
    return {_IDENTITY: json.dumps(identity), "commit.retry.num-retries": "0"}
