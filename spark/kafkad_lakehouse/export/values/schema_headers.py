"""Schema ids in the headers of records, as serializers of Confluent and Apicurio write them.

Confluent's header has a type byte, then an id or a GUID. Apicurio's headers have numbers of eight bytes. Apicurio's
content ids are ids in Confluent's interface to its registry; its global ids are not.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


class Names(NamedTuple):
    """The names of the headers."""

    confluent: str
    content_id: str
    global_id: str
    encoding: str


NAMES = {
    of: Names(f"__{of}_schema_id", *(f"apicurio.{of}.{each}" for each in ("contentId", "globalId", "encoding")))
    for of in ("key", "value")
}
_PROTOBUF = "the value is Protobuf of Apicurio's serializer; only Confluent's serializer is supported"


class SchemaIds(NamedTuple):
    """The id for each value in Confluent's format, null without a header. `rejected` maps rows to reasons."""

    ids: pa.Array
    rejected: Mapping[int, str]


def schema_ids(headers: pa.Array, kind: str, of: str) -> SchemaIds:
    """`kind`: json, avro or protobuf; `of`: key or value. Confluent's header comes before the others."""
    names = NAMES[of]
    ids = last_values(headers, names.confluent)
    content, other = (last_values(headers, name) for name in (names.content_id, names.global_id))
    number = pc.coalesce(content, other)
    is_apicurio = pc.and_(ids.is_null(), number.is_valid())
    if not pc.any(is_apicurio).as_py():
        return SchemaIds(ids, {})
    is_number = pc.and_(pc.equal(pc.binary_length(number), 8), pc.equal(pc.binary_slice(number, 0, 4), bytes(4)))
    separator = pa.scalar(b"")
    ids = pc.if_else(is_apicurio, pc.binary_join_element_wise(b"\0", pc.binary_slice(number, 4, 8), separator), ids)
    if kind == "json":
        # JSON values are parsed without their schema.
        return SchemaIds(ids, {})
    if kind == "protobuf":
        return SchemaIds(ids, _rows(is_apicurio, _PROTOBUF))
    not_binary = pc.not_equal(last_values(headers, names.encoding), b"BINARY")
    no_number = f"the header {names.content_id} is not a valid schema id"
    is_global = (
        f"it has the header {names.global_id}, and Confluent's interface to the registry knows only {names.content_id}"
    )
    rejected = {
        **_rows(pc.and_(is_apicurio, pc.invert(is_number)), no_number),
        **_rows(pc.and_(is_apicurio, content.is_null()), is_global),
        **_rows(pc.and_(is_apicurio, not_binary), f"its header {names.encoding} is not BINARY"),
    }
    return SchemaIds(ids, rejected)


def last_values(headers: pa.Array, name: str) -> pa.Array:
    """For each record, the value of its last header of this name; null without such a header."""
    if headers.null_count == len(headers):
        return pa.nulls(len(headers), pa.binary())
    pairs = headers.flatten()
    chosen = np.flatnonzero(pc.equal(pairs.field("key"), name).fill_null(False).to_numpy(zero_copy_only=False))
    place = np.full(len(headers), -1, np.int64)
    # In order, so the last header of a record counts.
    place[pc.list_parent_indices(headers).to_numpy()[chosen]] = chosen
    return pairs.field("value").take(pa.array(place, mask=place < 0))


def _rows(chosen: pa.Array, reason: str) -> dict[int, str]:
    return dict.fromkeys(pc.indices_nonzero(chosen.fill_null(False)).to_pylist(), reason)
