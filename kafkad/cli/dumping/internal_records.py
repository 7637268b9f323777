"""Decode the records of internal topics: groups, offsets, transactions, KRaft metadata."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any
from uuid import UUID

from kafkad.core.controller.store.nodes import encode_id
from kafkad.wire.records import group_records, metadata_records, transaction_records
from kafkad.wire.records.record_schema import MalformedRecord

Decoder = Callable[[bytes | None, bytes | None], Any]
"""Decodes key and value to a record; None for an unknown type. Raises MalformedRecord."""


def _metadata(_key: bytes | None, value: bytes | None) -> Any:
    return None if value is None else metadata_records.decode_metadata(value)


DECODERS: dict[str, Decoder] = {
    "__consumer_offsets": lambda key, value: group_records.decode(_present(key), value),
    "__transaction_state": lambda key, value: transaction_records.decode(_present(key), value),
    "__cluster_metadata": _metadata,
}
"""By topic."""


def _present(key: bytes | None) -> bytes:
    if key is None:
        raise MalformedRecord("a record without a key")
    return key


def decoded(decoder: Decoder, key: bytes | None, value: bytes | None) -> dict[str, Any] | str:
    """The type and the fields of the record; a message for a malformed or unknown record."""
    try:
        record = decoder(key, value)
    except MalformedRecord as error:
        return f"can't be decoded: {error}"
    return "unsupported record type" if record is None else _shown(record)


def _shown(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in fields(value)]
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        names = list(value._fields)
    elif isinstance(value, list | tuple | set | frozenset):
        return [_shown(each) for each in value]
    elif isinstance(value, dict):
        return {str(key): _shown(each) for key, each in value.items()}
    elif isinstance(value, UUID):
        return encode_id(value)
    elif isinstance(value, Enum):
        return value.name
    elif isinstance(value, bytes):
        return value.hex()
    else:
        return value
    return {"type": type(value).__name__, **{name: _shown(getattr(value, name)) for name in names}}
