"""What the keys or values of a topic are: a plain value that goes to tasks. `opening` has the parser of it."""

from dataclasses import dataclass, field

import pyarrow as pa

DEAD_LETTERS, NULL, FAIL = "dlq", "null", "fail"
"""What becomes of a record whose key or value can't be parsed."""
STRING = "string"


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueFormat:
    """`kind`: json, avro or protobuf, with either `schema`, the content of a file, or the address of a `registry`; or
    string, which is UTF-8.
    """

    kind: str
    of: str = "value"
    """Or "key"."""
    schema: bytes = b""
    message: str = ""
    registry: str = field(default="", repr=False)
    subject: str = ""
    on_bad: str = DEAD_LETTERS
    timeout_s: float = 30.0
    columns: pa.DataType | None = None
    """What a table has of it; see `opening.resolve`."""
