"""A table's columns grow with the schema, and never become others."""

import pyarrow as pa
import pytest

from kafkad_lakehouse.export.problems import ExportFailed
from kafkad_lakehouse.export.schema import RECORDS
from kafkad_lakehouse.export.values.columns import KEY, VALUE, plain, widened
from kafkad_lakehouse.export.values.format import ValueFormat
from kafkad_lakehouse.export.values.table_columns import columns_for


def item(*names: str) -> pa.DataType:
    return pa.struct([(name, pa.int64()) for name in names])


def test_new_fields_come_behind_those_that_the_table_has() -> None:
    table = pa.struct([("a", item("x")), ("l", pa.list_(item("x"))), ("m", pa.map_(pa.string(), item("x")))])
    wanted = pa.struct(
        [("n", pa.string()), ("m", pa.map_(pa.string(), item("y"))), ("l", pa.list_(item("y"))), ("a", item("y", "x"))]
    )
    both = item("x", "y")
    assert widened(table, wanted) == pa.struct(
        [("a", both), ("l", pa.list_(both)), ("m", pa.map_(pa.string(), both)), ("n", pa.string())]
    )


def test_a_field_of_another_type_is_refused_by_its_place() -> None:
    with pytest.raises(ExportFailed, match=r"value_parsed\.l\[\]\.x is int64 in the table, and string in the schema"):
        widened(pa.struct([("l", pa.list_(item("x")))]), pa.struct([("l", pa.list_(pa.struct([("x", pa.string())])))]))


def test_names_of_libraries_are_ours() -> None:
    theirs = pa.struct(
        [
            pa.field("a", pa.large_list(pa.field("element", pa.large_string(), nullable=False))),
            pa.field("m", pa.map_(pa.large_string(), pa.large_binary())),
        ]
    )
    assert plain(theirs) == pa.struct([("a", pa.list_(pa.string())), ("m", pa.map_(pa.string(), pa.binary()))])


def test_a_table_keeps_what_the_schema_has_no_longer() -> None:
    wanted = ValueFormat(kind="json", schema=b'{"properties": {"b": {"type": "integer"}}}')
    table = pa.schema([*RECORDS, pa.field(VALUE, item("a"))])
    found = columns_for([wanted], table, may_widen=True)
    assert [each.columns for each in found.formats] == [found.table.field(VALUE).type] == [item("a", "b")]
    with pytest.raises(ExportFailed, match="--on-schema-change widen"):
        columns_for([wanted], table, may_widen=False)
    assert columns_for([], table, may_widen=False)[:2] == (table, RECORDS)
    assert columns_for([wanted], None, may_widen=False).table.field(VALUE).type == item("b")


def test_keys_have_a_column_of_their_own() -> None:
    keys = ValueFormat(kind="string", of="key")
    table = pa.schema([*RECORDS, pa.field(VALUE, item("a"))])
    found = columns_for([keys], table, may_widen=False)
    assert found.table == pa.schema([*RECORDS, pa.field(KEY, pa.string()), pa.field(VALUE, item("a"))])
    assert found.files == pa.schema([*RECORDS, pa.field(KEY, pa.string())])
    fields = ValueFormat(kind="json", schema=b'{"properties": {"b": {"type": "integer"}}}', of="key")
    with pytest.raises(ExportFailed, match="key_parsed is string in the table"):
        columns_for([fields], found.table, may_widen=True)
