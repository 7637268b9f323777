"""An Iceberg table, through pyiceberg: files and end offsets are one commit of the catalog.

The offsets are a property of the table, as snapshots expire. Each commit makes a snapshot, even one without files, and
is conditional on the snapshot that was there when the offsets were read. The library would repeat a commit that lost
a race, with the same records once more: it is told not to.
"""

import json
import logging
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

from kafkad.export.latest import KEEP_ALL
from kafkad.export.places import TableFolder
from kafkad.export.problems import AnotherExport, ExportFailed, NotInstalled, after_commit
from kafkad.export.sinks.complete_hours import carried
from kafkad.export.sinks.rewriting import changed_partitions, fitted, remove, rewrite
from kafkad.export.sinks.sink import Commit, Merged, Merging, TableState
from kafkad.export.sinks.strangers import check_strangers
from kafkad.export.values.columns import field_paths
from kafkad.export.writing import PARTITIONS, WrittenFile

try:
    import pyarrow as pa
    from pyiceberg.catalog import Catalog, load_catalog
    from pyiceberg.exceptions import (
        CommitFailedException,
        NamespaceAlreadyExistsError,
        NoSuchNamespaceError,
        NoSuchTableError,
        RESTError,
        TableAlreadyExistsError,
        ValidationError,
    )
    from pyiceberg.exceptions import ValidationException as ConflictError
    from pyiceberg.table import Table, Transaction
    from sqlalchemy.exc import IntegrityError, SQLAlchemyError
except ImportError as error:
    raise NotInstalled("iceberg", "pyiceberg") from error

_IDENTITY = "kafkad.export"
_CATALOG = "_catalog.db"
# It warns of each column without statistics, of each file; those are left out on purpose.
logging.getLogger("pyiceberg.io.pyarrow").setLevel(logging.ERROR)
_FAULTS = (ValueError, OSError, ValidationError, RESTError, SQLAlchemyError)


class IcebergSink:
    """See `Sink`. `catalog`: an address (sqlite:///…, http://…), the name of one that pyiceberg is configured with, or
    empty: a file in the table's folder. `name`: namespace and table.
    """

    def __init__(self, folder: TableFolder, partition_by: str, catalog: str, name: str) -> None:
        self._folder = folder
        self._partition_by = PARTITIONS[partition_by]
        self._location = folder.root if folder.is_local else folder.out.rstrip("/")
        self._catalog_address = catalog
        self._name = name
        self._table: Table | None = None
        self._opened: Catalog | None = None
        if not catalog and not folder.is_local:
            raise ExportFailed(f"{folder.out}: an Iceberg table there needs a catalog: --catalog")

    def state(self, partitions: Iterable[int]) -> TableState:
        table = self._table = self._load()
        if table is None:
            check_strangers(self._folder, "iceberg")
            return TableState(None, None, None, {}, -1)
        identity = table.properties.get(_IDENTITY)
        if identity is None:
            raise ExportFailed(f"{self._name} is an Iceberg table that no export has made")
        known = json.loads(identity)
        offsets = {int(partition): end for partition, end in known["offsets"].items()}
        columns = pa.schema([each for each in table.schema().as_arrow() if each.name not in self._partition_by])
        version = table.metadata.current_snapshot_id
        of_topic = (known["cluster_id"], UUID(known["topic_id"]), known["topic"])
        reached = {int(partition): time for partition, time in known.get("reached", {}).items()}
        keeps = known.get("keeps", KEEP_ALL)
        return TableState(*of_topic, offsets, version or 0, columns, keeps, reached, known.get("complete_until"))

    def check_store(self) -> None:
        """Commits are made in the catalog."""

    def commit(self, state: TableState, commit: Commit) -> int:
        before = state.offsets if state.topic_id == commit.topic_id else {}
        reached, complete_until = carried(state, commit)
        details = {"run": commit.run_id, "completeUntil": complete_until, "lost": list(map(tuple, commit.lost))}
        try:
            transaction = self._begin(state, commit)
            transaction.set_properties(_properties(commit, {**before, **commit.ends}, reached, complete_until))
            files = self._replace(transaction, commit) if commit.replaces(state) else commit.files
            transaction.add_files(
                [f"{self._location}/{file.path}" for file in files],
                snapshot_properties={"kafkad": json.dumps(details)},
                check_duplicate_files=False,
            )
            table = transaction.commit_transaction()
        except (CommitFailedException, ConflictError, TableAlreadyExistsError) as error:
            raise AnotherExport(f"{self._folder.out}: another export has committed meanwhile: {error}") from error
        except _FAULTS as error:
            raise ExportFailed(f"{self._folder.out} could not be committed to: {_reason(error)}") from error
        self._table = table
        with after_commit():
            remove(self._folder, set(commit.files) - set(files))
        return len(table.metadata.snapshots)

    def _replace(self, transaction: Transaction, commit: Commit) -> list[WrittenFile]:
        """Delete what the table has of the partitions of which there is something new. Returns the files for it."""
        assert self._table is not None
        files = []
        for partition in changed_partitions(commit):
            of_partition = f"partition == {partition}"
            before = [fitted(each, commit.schema) for each in self._table.scan(of_partition).to_arrow_batch_reader()]
            files += rewrite(self._folder, commit, partition, before)
            if any(each.num_rows for each in before):
                transaction.delete(of_partition)
        return files

    def files(self) -> list[str]:
        table = self._load()
        if table is None:
            return []
        try:
            paths = [task.file.file_path for task in table.scan().plan_files()]
        except _FAULTS as error:
            raise ExportFailed(f"{self._folder.out} can't be read: {_reason(error)}") from error
        return sorted(path.removeprefix("file://").removeprefix(f"{self._location}/") for path in paths)

    def kept(self, older_than_s: float) -> set[str]:
        return set(self.files())

    def merge_small(self, merging: Merging) -> Merged:
        return Merged(0, 0)

    def _load(self) -> Table | None:
        try:
            catalog = self._catalog()
            return None if catalog is None else catalog.load_table(self._name)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None
        except _FAULTS as error:
            raise ExportFailed(f"{self._name} can't be read from its catalog: {_reason(error)}") from error

    def _begin(self, state: TableState, commit: Commit) -> Transaction:
        """With the table that the state is of, or a new one, which is made by the commit."""
        names = [pa.field(name, pa.string()) for name in self._partition_by]
        schema = pa.schema([*commit.schema, *names])
        if self._table is not None:
            transaction = self._table.transaction()
            if state.columns is not None and field_paths(commit.schema) != field_paths(state.columns):
                with transaction.update_schema() as update:
                    update.union_by_name(schema)
            return transaction
        catalog = self._catalog(is_made=True)
        assert catalog is not None
        namespace = self._name.rpartition(".")[0]
        make_namespace(catalog, namespace)
        transaction = catalog.create_table_transaction(
            self._name, schema, location=self._location, properties={"commit.retry.num-retries": "0"}
        )
        if self._partition_by:
            with transaction.update_spec() as spec:
                for name in self._partition_by:
                    spec.add_identity(name)
        return transaction

    def _catalog(self, *, is_made: bool = False) -> Catalog | None:
        """None: there is no file of a catalog, and none is made."""
        if self._opened is None:
            address = self._catalog_address
            if not address:
                file = Path(self._folder.root, _CATALOG)
                if not is_made and not file.exists():
                    return None
                file.parent.mkdir(parents=True, exist_ok=True)
                address = f"sqlite:///{file}"
            self._opened = _open_catalog(address)
        return self._opened


def make_namespace(catalog: Catalog, namespace: str) -> None:
    """Unless it is there. Another export may make it at the same moment, of which a catalog in SQL says so."""
    try:
        catalog.create_namespace(namespace)
    except NamespaceAlreadyExistsError:
        pass
    except IntegrityError:
        if not catalog.namespace_exists(namespace):
            raise


def _reason(error: Exception) -> str:
    """Without the statement that the catalog could not carry out."""
    return str(error).partition("\n")[0] if isinstance(error, SQLAlchemyError) else str(error)


def _open_catalog(address: str) -> Catalog:
    if "://" not in address:
        return load_catalog(address)
    kind = "rest" if address.startswith(("http://", "https://")) else "sql"
    return load_catalog("kafkad", type=kind, uri=address, **_store_options())


def _store_options() -> dict[str, str]:
    """Where else than at Amazon the objects are: as pyarrow and deltalake are told."""
    found = {"s3.endpoint": os.environ.get("AWS_ENDPOINT_URL", ""), "s3.region": os.environ.get("AWS_REGION", "")}
    return {name: value for name, value in found.items() if value}


def _properties(
    commit: Commit, offsets: Mapping[int, int], reached: Mapping[int, int], complete_until: int | None
) -> dict[str, str]:
    identity: dict[str, Any] = {
        "cluster_id": commit.cluster_id,
        "topic_id": str(commit.topic_id),
        "topic": commit.topic,
        "offsets": {str(partition): end for partition, end in sorted(offsets.items())},
        "keeps": commit.keeps,
        "reached": {str(partition): time for partition, time in sorted(reached.items())},
        "complete_until": complete_until,
    }
    return {_IDENTITY: json.dumps(identity), "commit.retry.num-retries": "0"}
