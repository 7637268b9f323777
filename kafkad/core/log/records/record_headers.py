"""How are the headers of a record read, or only checked?

The producer chooses their number: a record of some megabytes may have millions, in a compressed batch of some
kilobytes. A reader that ignores headers creates no objects: it skips to the end of the record, or checks the headers.
Readers raise `IndexError` and `ValueError`, like those of `varint`.
"""

from collections.abc import Sequence

from kafkad.core.log.records.varint import read_varint

Headers = Sequence[tuple[str, bytes | None]]


def read_headers(body: bytes, position: int, end: int, count: int) -> tuple[Headers, int]:
    """The `count` headers from `position` on in a record that ends at `end`, and the end of the headers."""
    check_count(position, end, count)
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        key, position = read_bytes(body, position, end)
        if key is None:
            raise ValueError("a header has no key")
        value, position = read_bytes(body, position, end)
        # Invalid UTF-8 is replaced, as in Java.
        headers.append((key.decode("utf-8", "replace"), value))
    return headers, position


def end_of_headers(body: bytes, position: int, end: int, count: int) -> int:
    """The end of the headers; raises where `read_headers` raises, but creates no objects."""
    check_count(position, end, count)
    for _ in range(count):
        # The usual lengths, of one byte, are read inline: a call would cost more than the rest.
        byte = body[position]
        if byte < 0x80:
            length = (byte >> 1) ^ -(byte & 1)
            position += 1
        else:
            length, position = read_varint(body, position)
        if length < 0:
            raise ValueError("a header has no key")
        position += length
        byte = body[position]
        if byte < 0x80:
            position += 1 if byte & 1 else 1 + (byte >> 1)
        else:
            length, position = read_varint(body, position)
            if length > 0:
                position += length
        if position > end:
            raise ValueError("a header exceeds the record")
    return position


def read_bytes(body: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    """The key or value of a record or header, after its length."""
    length, position = read_varint(body, position)
    stop = position + max(length, 0)
    if stop > end:
        raise ValueError(f"a field of {length} bytes exceeds the record")
    return None if length < 0 else body[position:stop], stop


def check_count(position: int, end: int, count: int) -> None:
    """Raise ValueError if the bytes up to the end of the record can't be `count` headers."""
    if count < 0 or count > end - position:
        raise ValueError(f"{count} headers in {end - position} bytes")
