"""The namespace of a new Iceberg table, which two exports may make at the same moment."""

from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from sqlalchemy.exc import IntegrityError, OperationalError

from kafkad_lakehouse.export.sinks.iceberg import make_namespace, open_catalog


class Raced(SqlCatalog):
    """Another process makes the namespace after this one has looked."""

    is_looking = True

    def namespace_exists(self, namespace: str | tuple[str, ...]) -> bool:
        if self.is_looking:
            self.is_looking = False
            return False
        return bool(super().namespace_exists(namespace))


def catalog(kind: type[SqlCatalog], folder: Path) -> SqlCatalog:
    return kind("c", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))


def test_a_namespace_may_be_there(tmp_path: Path) -> None:
    for _ in range(2):
        make_namespace(catalog(SqlCatalog, tmp_path), "lake")
    assert catalog(SqlCatalog, tmp_path).namespace_exists("lake")


def test_another_export_may_make_it_meanwhile(tmp_path: Path) -> None:
    catalog(SqlCatalog, tmp_path).create_namespace("lake")
    with pytest.raises(IntegrityError):
        catalog(Raced, tmp_path).create_namespace("lake")
    make_namespace(catalog(Raced, tmp_path), "lake")


def test_a_catalog_whose_tables_another_process_creates_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[str] = []

    def load(name: str, **properties: str) -> Catalog:
        attempts.append(name)
        if len(attempts) == 1:
            raise OperationalError("CREATE TABLE", {}, Exception("table iceberg_tables already exists"))
        return load_catalog(name, **properties)

    monkeypatch.setattr("kafkad_lakehouse.export.sinks.iceberg.load_catalog", load)
    assert open_catalog(f"sqlite:///{tmp_path}/catalog.db").list_namespaces() == []
    assert len(attempts) == 2
