"""Convert Protobuf to columns: the types of a message, and values that are such messages.

Enums become names, a Timestamp becomes a timestamp, and wrappers become the wrapped value or null. A missing field
without presence has its default, as always in Protobuf.
"""

import base64
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa

from kafkad_lakehouse.export.problems import ExportFailed, NotInstalled
from kafkad_lakehouse.export.values.columns import TIMESTAMP, struct_of
from kafkad_lakehouse.export.values.framing import Decode
from kafkad_lakehouse.export.values.proto_text import descriptor_set
from kafkad_lakehouse.export.values.registry import PROTOBUF, Schema

try:
    from google.protobuf import (
        any_pb2,
        duration_pb2,
        empty_pb2,
        field_mask_pb2,
        struct_pb2,
        timestamp_pb2,
        wrappers_pb2,
    )
    from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import DecodeError
    from google.protobuf.message_factory import GetMessageClass
except ImportError as error:
    raise NotInstalled("protobuf", "protobuf") from error

_KNOWN = {
    module.DESCRIPTOR.name: module.DESCRIPTOR
    for module in (any_pb2, duration_pb2, empty_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2)
}
_UNSIGNED = pa.decimal128(20)
_MAX_DEPTH = 20
_OWN_NAME = "default.proto"
"""Confluent's name for the file of the schema itself; other files have the names in its import statements."""
_TIMESTAMP = "google.protobuf.Timestamp"
_WRAPPERS = frozenset(each.full_name for each in wrappers_pb2.DESCRIPTOR.message_types_by_name.values())

Convert = Callable[[Any], Any]


def message_in_file(content: bytes, name: str) -> Any:
    """The message in a descriptor set of `protoc --include_imports --descriptor_set_out`."""
    try:
        files = FileDescriptorSet.FromString(content).file
        pool = _pool(files)
        if name:
            return pool.FindMessageTypeByName(name)
        messages = pool.FindFileByName(files[-1].name).message_types_by_name if files else {}
    except (DecodeError, TypeError, KeyError) as error:
        raise ExportFailed(f"the descriptor set can't be read, or has no message {name!r}: {error}") from error
    if len(messages) != 1:
        raise ExportFailed(f"--schema-message has to name one of {', '.join(messages) or 'no message'}")
    return next(iter(messages.values()))


def messages_of(schema: Schema) -> list[Any]:
    """The messages of a schema in the registry, in the order of the message indexes in values."""
    if schema.kind != PROTOBUF:
        raise ExportFailed(f"the registry has a schema of kind {schema.kind}, not Protobuf")
    try:
        return list(_pool(_files(schema)).FindFileByName(_OWN_NAME).message_types_by_name.values())
    except (DecodeError, TypeError, KeyError, ValueError) as error:
        raise ExportFailed(f"the registry's Protobuf schema can't be read: {error}") from error


def framed_decoder_of(schema: Schema) -> Decode:
    """The decoder for values that begin with message indexes."""
    messages = messages_of(schema)
    decoders: dict[tuple[int, ...], Decode] = {}

    def decode(value: bytes) -> Any:
        indexes, at = _indexes(value)
        if indexes not in decoders:
            chosen = messages[indexes[0]]
            for index in indexes[1:]:
                chosen = chosen.nested_types[index]
            decoders[indexes] = decoder_of(chosen)
        return decoders[indexes](value[at:])

    return decode


def decoder_of(message: Any) -> Decode:
    kind = GetMessageClass(message)
    convert = _message(message, 0)

    def decode(value: bytes) -> Any:
        try:
            return convert(kind.FromString(value))
        except DecodeError as error:
            raise ValueError(str(error)) from error

    return decode


def columns_of(message: Any) -> pa.StructType:
    """Raises `ExportFailed`."""
    return _struct(message, "", 0)


def _pool(files: Iterable[FileDescriptorProto]) -> DescriptorPool:
    pool = DescriptorPool()
    added: set[str] = set()
    for file in files:
        for name in file.dependency:
            if name in _KNOWN and name not in added:
                added.add(name)
                pool.AddSerializedFile(_KNOWN[name].serialized_pb)
        if file.name not in added:
            added.add(file.name)
            pool.AddSerializedFile(file.SerializeToString())
    return pool


def _files(schema: Schema) -> list[FileDescriptorProto]:
    """The files of the schema, references first, with the names in import statements. The schema is text or base64."""
    content = _serialized(schema.text)
    if content is None:
        texts = {name: child.text for name, child in _imported(schema)}
        return list(FileDescriptorSet.FromString(descriptor_set({**texts, _OWN_NAME: schema.text}, _OWN_NAME)).file)
    found = [(name, _serialized(child.text) or b"") for name, child in _imported(schema)]
    files = []
    for name, serialized in [*found, (_OWN_NAME, content)]:
        file = FileDescriptorProto.FromString(serialized)
        file.name = name
        files.append(file)
    return files


def _imported(schema: Schema) -> Iterator[tuple[str, Schema]]:
    for name, child in schema.references:
        yield from _imported(child)
        yield name, child


def _serialized(text: str) -> bytes | None:
    """The decoded base64; None if the schema is text, which is never valid base64."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return None


def _indexes(value: bytes) -> tuple[tuple[int, ...], int]:
    """The message indexes, as zigzag varints: their number, then each; a single zero is the first message."""
    count, at = _varint(value, 0)
    if count == 0:
        return (0,), at
    if not 0 < count <= _MAX_DEPTH:
        raise ValueError(f"its message is {count} levels deep")
    indexes = []
    for _ in range(count):
        index, at = _varint(value, at)
        if index < 0:
            raise ValueError(f"it has a message number of {index}")
        indexes.append(index)
    return tuple(indexes), at


def _varint(value: bytes, at: int) -> tuple[int, int]:
    found = shift = 0
    while True:
        byte = value[at]
        at += 1
        found |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return (found >> 1) ^ -(found & 1), at
        shift += 7
        if shift > 28:
            raise ValueError("its message number is too long")


def _struct(message: Any, place: str, depth: int) -> pa.StructType:
    if depth > _MAX_DEPTH:
        raise ExportFailed(f"schema: {place} is recursive, and can't be a column")
    rows = [(field.name, _type(field, f"{place}.{field.name}", depth)) for field in message.fields]
    return struct_of(rows, place)


def _type(field: Any, place: str, depth: int) -> pa.DataType:
    if _is_map(field):
        entry = field.message_type.fields_by_name
        return pa.map_(_type(entry["key"], place, depth), _type(entry["value"], f"{place}[]", depth))
    kind = _single_type(field, place, depth)
    return pa.list_(kind) if field.is_repeated else kind


def _single_type(field: Any, place: str, depth: int) -> pa.DataType:
    if field.cpp_type == field.CPPTYPE_MESSAGE:
        if field.message_type.full_name == _TIMESTAMP:
            return TIMESTAMP
        if field.message_type.full_name in _WRAPPERS:
            return _single_type(field.message_type.fields_by_name["value"], place, depth)
        return _struct(field.message_type, place, depth + 1)
    return {
        field.CPPTYPE_BOOL: pa.bool_(),
        field.CPPTYPE_INT32: pa.int64(),
        field.CPPTYPE_INT64: pa.int64(),
        field.CPPTYPE_UINT32: pa.int64(),
        field.CPPTYPE_UINT64: _UNSIGNED,
        field.CPPTYPE_FLOAT: pa.float64(),
        field.CPPTYPE_DOUBLE: pa.float64(),
        field.CPPTYPE_ENUM: pa.string(),
        field.CPPTYPE_STRING: pa.binary() if field.type == field.TYPE_BYTES else pa.string(),
    }[field.cpp_type]


def _is_map(field: Any) -> bool:
    found: bool = field.is_repeated and field.message_type is not None and field.message_type.GetOptions().map_entry
    return found


def _message(message: Any, depth: int) -> Convert:
    if depth > _MAX_DEPTH:
        raise ExportFailed(f"schema: {message.full_name} is recursive, and can't be a column")
    fields = [(field.name, _field(field, depth)) for field in message.fields]
    return lambda found: {name: convert(found) for name, convert in fields}


def _field(field: Any, depth: int) -> Convert:
    """Returns a function from the message to the value of the field."""
    name = field.name
    if _is_map(field):
        inner = _single(field.message_type.fields_by_name["value"], depth)
        return lambda found: [(key, inner(each)) for key, each in getattr(found, name).items()]
    convert = _single(field, depth)
    if field.is_repeated:
        return lambda found: [convert(each) for each in getattr(found, name)]
    if field.has_presence:
        return lambda found: convert(getattr(found, name)) if found.HasField(name) else None
    return lambda found: convert(getattr(found, name))


def _single(field: Any, depth: int) -> Convert:
    if field.cpp_type == field.CPPTYPE_ENUM:
        names = {number: each.name for number, each in field.enum_type.values_by_number.items()}
        return lambda number: names.get(number, str(number))
    if field.cpp_type != field.CPPTYPE_MESSAGE:
        return lambda found: found
    if field.message_type.full_name == _TIMESTAMP:
        return lambda found: found.seconds * 1_000_000 + found.nanos // 1_000
    if field.message_type.full_name in _WRAPPERS:
        return lambda found: found.value
    return _message(field.message_type, depth + 1)
