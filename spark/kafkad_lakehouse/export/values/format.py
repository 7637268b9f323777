"""The format of the keys or values of a topic: a plain value for tasks. `opening` returns its parser."""

from dataclasses import dataclass, field

import pyarrow as pa

DEAD_LETTERS, NULL, FAIL = "dlq", "null", "fail"
"""The handling of a record with an unparsable key or value."""
STRING = "string"


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueFormat:
    """`kind`: json, avro or protobuf, with `schema` (the content of a file) or the address of a `registry`; or string
    (UTF-8).
    """

    kind: str
    of: str = "value"
    """"value" or "key"."""
    schema: bytes = b""
    message: str = ""
    registry: str = field(default="", repr=False)
    subject: str = ""
    on_bad: str = DEAD_LETTERS
    timeout_s: float = 30.0
    columns: pa.DataType | None = None
    """The type of the column; see `opening.resolve`."""
