"""The column and the parser of a format. Imported only for parsed formats, because it imports their libraries."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial, reduce
from types import ModuleType

import pyarrow as pa

from kafkad_lakehouse.export.problems import ExportFailed
from kafkad_lakehouse.export.values import json_schema
from kafkad_lakehouse.export.values.columns import PARSED, widened
from kafkad_lakehouse.export.values.format import STRING, ValueFormat
from kafkad_lakehouse.export.values.framing import FramedParser, UnframedParser
from kafkad_lakehouse.export.values.json_values import JsonParser
from kafkad_lakehouse.export.values.parsed import Parsed, Parser, decoded
from kafkad_lakehouse.export.values.registry import AVRO, JSON, Registry, Schema, with_user


def resolve(value_format: ValueFormat) -> ValueFormat:
    """The format with the columns of its schema, or of all versions in the registry. Raises `ExportFailed`.

    Call it when the end offsets of the run are known: then no value has a newer schema.
    """
    if value_format.kind == STRING:
        return replace(value_format, columns=pa.string())
    if not value_format.registry:
        return replace(value_format, columns=_columns_of_file(value_format))
    value_format = replace(value_format, registry=with_user(value_format.registry))
    columns_of = _columns_by_registry(value_format)
    kinds = [columns_of(schema) for schema in _registry(value_format).versions(value_format.subject)]
    return replace(value_format, columns=reduce(partial(widened, place=PARSED[value_format.of]), kinds))


def open_parser(value_format: ValueFormat) -> Parser:
    """The parser of a resolved format."""
    columns = value_format.columns
    assert columns is not None
    if value_format.kind == STRING:
        return _TextParser()
    if value_format.kind == "json":
        return UnframedParser(JsonParser(columns)) if value_format.registry else JsonParser(columns)
    if value_format.kind == "avro":
        avro = _avro()
        if value_format.registry:
            return FramedParser(_registry(value_format), columns, avro.decoder_of)
        return _PlainParser(avro.decoder_of(Schema(AVRO, value_format.schema.decode())), columns)
    protobuf = _protobuf()
    if value_format.registry:
        return FramedParser(_registry(value_format), columns, protobuf.framed_decoder_of)
    return _PlainParser(
        protobuf.decoder_of(protobuf.message_in_file(value_format.schema, value_format.message)), columns
    )


class _TextParser:
    """See `Parser`. All values are UTF-8."""

    def parse(self, values: pa.Array, ids: pa.Array | None = None) -> Parsed:
        try:
            return Parsed(values.cast(pa.string()), {})
        except pa.ArrowInvalid:
            return decoded(values.to_pylist(), bytes.decode, pa.string())


class _PlainParser:
    """See `Parser`. All values were written with one schema."""

    def __init__(self, decode: Callable[[bytes], object], columns: pa.DataType) -> None:
        self._decode = decode
        self._columns = columns

    def parse(self, values: pa.Array, ids: pa.Array | None = None) -> Parsed:
        return decoded(values.to_pylist(), self._decode, self._columns)


def _columns_of_file(value_format: ValueFormat) -> pa.DataType:
    if value_format.kind == "protobuf":
        protobuf = _protobuf()
        return protobuf.columns_of(protobuf.message_in_file(value_format.schema, value_format.message))
    try:
        text = value_format.schema.decode()
    except UnicodeDecodeError as error:
        raise ExportFailed(f"the schema file is not UTF-8 text: {error}") from error
    return json_schema.columns_of(text) if value_format.kind == "json" else _avro().columns_of(Schema(AVRO, text))


def _columns_by_registry(value_format: ValueFormat) -> Callable[[Schema], pa.DataType]:
    if value_format.kind == "avro":
        return _avro().columns_of
    if value_format.kind == "json":
        return _columns_of_json
    protobuf = _protobuf()

    def columns_of(schema: Schema) -> pa.DataType:
        messages = protobuf.messages_of(schema)
        if value_format.message:
            messages = [each for each in messages if value_format.message in {each.name, each.full_name}]
        if not messages:
            raise ExportFailed(f"the registry's schema has no message {value_format.message!r}")
        return protobuf.columns_of(messages[0])

    return columns_of


def _columns_of_json(schema: Schema) -> pa.DataType:
    if schema.kind != JSON:
        raise ExportFailed(f"the registry has a schema of kind {schema.kind}, not JSON")
    return json_schema.columns_of(schema.text)


def _registry(value_format: ValueFormat) -> Registry:
    return Registry(value_format.registry, timeout_s=value_format.timeout_s, serialized=value_format.kind == "protobuf")


# Only these formats need their libraries.


def _avro() -> ModuleType:
    from kafkad_lakehouse.export.values import avro_values  # noqa: PLC0415

    return avro_values


def _protobuf() -> ModuleType:
    from kafkad_lakehouse.export.values import protobuf_values  # noqa: PLC0415

    return protobuf_values
