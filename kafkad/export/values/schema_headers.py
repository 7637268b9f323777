"""What headers of records say of the schemas of their keys and values, as serializers of Confluent and Apicurio do.

Confluent's has an id or a GUID, behind a byte that says which; Apicurio's have numbers of eight bytes. Its content ids
are the ids that Confluent's interface to its registry knows; its global ids are other numbers.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


class Names(NamedTuple):
    """Of the headers."""

    confluent: str
    content_id: str
    global_id: str
    encoding: str


NAMES = {
    of: Names(f"__{of}_schema_id", *(f"apicurio.{of}.{each}" for each in ("contentId", "globalId", "encoding")))
    for of in ("key", "value")
}
_PROTOBUF = "it is Protobuf of Apicurio's serializer; only that of Confluent's can be read"


class SchemaIds(NamedTuple):
    """Beside each value, null where nothing is; as Confluent's serializers write them. `refused`: row to reason."""

    ids: pa.Array
    refused: Mapping[int, str]


def schema_ids(headers: pa.Array, kind: str, of: str) -> SchemaIds:
    """`kind`: json, avro or protobuf; `of`: key or value. Confluent's header comes before the others."""
    names = NAMES[of]
    ids = last_values(headers, names.confluent)
    content, other = (last_values(headers, name) for name in (names.content_id, names.global_id))
    number = pc.coalesce(content, other)
    theirs = pc.and_(ids.is_null(), number.is_valid())
    if not pc.any(theirs).as_py():
        return SchemaIds(ids, {})
    is_number = pc.and_(pc.equal(pc.binary_length(number), 8), pc.equal(pc.binary_slice(number, 0, 4), bytes(4)))
    without = pa.scalar(b"")
    ids = pc.if_else(theirs, pc.binary_join_element_wise(b"\0", pc.binary_slice(number, 4, 8), without), ids)
    if kind == "json":
        # Which of them it is makes no difference to these.
        return SchemaIds(ids, {})
    if kind == "protobuf":
        return SchemaIds(ids, _rows(theirs, _PROTOBUF))
    not_binary = pc.not_equal(last_values(headers, names.encoding), b"BINARY")
    no_number = f"the header {names.content_id} is no number that a schema can have"
    is_global = (
        f"it has the header {names.global_id}, and Confluent's interface to the registry knows only {names.content_id}"
    )
    refused = {
        **_rows(pc.and_(theirs, pc.invert(is_number)), no_number),
        **_rows(pc.and_(theirs, content.is_null()), is_global),
        **_rows(pc.and_(theirs, not_binary), f"its header {names.encoding} is not BINARY"),
    }
    return SchemaIds(ids, refused)


def last_values(headers: pa.Array, name: str) -> pa.Array:
    """Of each record, the value of its last header of this name; null where there is none."""
    if headers.null_count == len(headers):
        return pa.nulls(len(headers), pa.binary())
    pairs = headers.flatten()
    chosen = np.flatnonzero(pc.equal(pairs.field("key"), name).fill_null(False).to_numpy(zero_copy_only=False))
    place = np.full(len(headers), -1, np.int64)
    # In their order: the last one stays.
    place[pc.list_parent_indices(headers).to_numpy()[chosen]] = chosen
    return pairs.field("value").take(pa.array(place, mask=place < 0))


def _rows(chosen: pa.Array, reason: str) -> dict[int, str]:
    return dict.fromkeys(pc.indices_nonzero(chosen.fill_null(False)).to_pylist(), reason)
