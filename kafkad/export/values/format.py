"""What the values of a topic are: a plain value that goes to tasks. `opening` has the parser that it asks for."""

from dataclasses import dataclass, field

import pyarrow as pa

DEAD_LETTERS, NULL, FAIL = "dlq", "null", "fail"
"""What becomes of a value that can't be parsed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueFormat:
    """`kind`: json, avro or protobuf. Either `schema`, the content of a file, or the address of a `registry`."""

    kind: str
    schema: bytes = b""
    message: str = ""
    registry: str = field(default="", repr=False)
    subject: str = ""
    on_bad: str = DEAD_LETTERS
    timeout_s: float = 30.0
    columns: pa.StructType | None = None
    """What a table has of it; see `opening.resolve`."""
