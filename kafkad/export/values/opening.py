"""The columns and the parser of a format. It needs what parses, so who has only bytes does not import it."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial, reduce
from types import ModuleType

import pyarrow as pa

from kafkad.export.problems import ExportFailed
from kafkad.export.values import json_schema
from kafkad.export.values.columns import PARSED, widened
from kafkad.export.values.format import STRING, ValueFormat
from kafkad.export.values.framing import FramedParser, UnframedParser
from kafkad.export.values.json_values import JsonParser
from kafkad.export.values.parsed import Parsed, Parser, decoded
from kafkad.export.values.registry import AVRO, JSON, Registry, Schema, with_user


def resolve(wanted: ValueFormat) -> ValueFormat:
    """With the columns of its schema, or of all versions that the registry has. Raises `ExportFailed`.

    To be asked behind the end of what is exported: then no value has a schema that is newer.
    """
    if wanted.kind == STRING:
        return replace(wanted, columns=pa.string())
    if not wanted.registry:
        return replace(wanted, columns=_columns_of_file(wanted))
    wanted = replace(wanted, registry=with_user(wanted.registry))
    columns_of = _columns_by_registry(wanted)
    kinds = [columns_of(schema) for schema in _registry(wanted).versions(wanted.subject)]
    return replace(wanted, columns=reduce(partial(widened, place=PARSED[wanted.of]), kinds))


def open_parser(wanted: ValueFormat) -> Parser:
    """Of a format that has columns."""
    columns = wanted.columns
    assert columns is not None
    if wanted.kind == STRING:
        return _TextParser()
    if wanted.kind == "json":
        return UnframedParser(JsonParser(columns)) if wanted.registry else JsonParser(columns)
    if wanted.kind == "avro":
        avro = _avro()
        if wanted.registry:
            return FramedParser(_registry(wanted), columns, avro.decoder_of)
        return _PlainParser(avro.decoder_of(Schema(AVRO, wanted.schema.decode())), columns)
    protobuf = _protobuf()
    if wanted.registry:
        return FramedParser(_registry(wanted), columns, protobuf.framed_decoder_of)
    return _PlainParser(protobuf.decoder_of(protobuf.message_in_file(wanted.schema, wanted.message)), columns)


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


def _columns_of_file(wanted: ValueFormat) -> pa.DataType:
    if wanted.kind == "protobuf":
        protobuf = _protobuf()
        return protobuf.columns_of(protobuf.message_in_file(wanted.schema, wanted.message))
    try:
        text = wanted.schema.decode()
    except UnicodeDecodeError as error:
        raise ExportFailed(f"the schema file is no text: {error}") from error
    return json_schema.columns_of(text) if wanted.kind == "json" else _avro().columns_of(Schema(AVRO, text))


def _columns_by_registry(wanted: ValueFormat) -> Callable[[Schema], pa.DataType]:
    if wanted.kind == "avro":
        return _avro().columns_of
    if wanted.kind == "json":
        return _columns_of_json
    protobuf = _protobuf()

    def columns_of(schema: Schema) -> pa.DataType:
        messages = protobuf.messages_of(schema)
        if wanted.message:
            messages = [each for each in messages if wanted.message in {each.name, each.full_name}]
        if not messages:
            raise ExportFailed(f"the registry's schema has no message {wanted.message!r}")
        return protobuf.columns_of(messages[0])

    return columns_of


def _columns_of_json(schema: Schema) -> pa.DataType:
    if schema.kind != JSON:
        raise ExportFailed(f"the registry has a schema of kind {schema.kind}, not JSON")
    return json_schema.columns_of(schema.text)


def _registry(wanted: ValueFormat) -> Registry:
    return Registry(wanted.registry, timeout_s=wanted.timeout_s, serialized=wanted.kind == "protobuf")


# Only who asks for them needs their libraries.


def _avro() -> ModuleType:
    from kafkad.export.values import avro_values  # noqa: PLC0415

    return avro_values


def _protobuf() -> ModuleType:
    from kafkad.export.values import protobuf_values  # noqa: PLC0415

    return protobuf_values
