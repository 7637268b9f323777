"""How are the headers of a record read, or only checked?

The producer chooses their number: a record of some megabytes may have millions, and a compressed batch of some
kilobytes may hold it. A reader that wants no headers makes no object of any: it takes the end of the record, or checks
them first. Readers raise `IndexError` and `ValueError`, as those of `varint` do.
"""

from collections.abc import Sequence

from kafkad.core.log.records.varint import read_varint

Headers = Sequence[tuple[str, bytes | None]]


def read_headers(body: bytes, position: int, end: int, count: int) -> tuple[Headers, int]:
    """The `count` headers from `position` on of a record that ends at `end`, and where they end."""
    check_count(position, end, count)
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        key, position = read_bytes(body, position, end)
        if key is None:
            raise ValueError("a header has no key")
        value, position = read_bytes(body, position, end)
        # Broken UTF-8 is the producer's affair; Java replaces it too.
        headers.append((key.decode("utf-8", "replace"), value))
    return headers, position


def end_of_headers(body: bytes, position: int, end: int, count: int) -> int:
    """Where the headers end that `read_headers` reads; raises where `read_headers` raises, and makes no objects."""
    check_count(position, end, count)
    for _ in range(count):
        # Lengths of one byte, the usual ones, are read in line because a call costs more than the rest.
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
            raise ValueError("a header leaves the record")
    return position


def read_bytes(body: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    """A key or a value, of a record or of a header, behind its length."""
    length, position = read_varint(body, position)
    stop = position + max(length, 0)
    if stop > end:
        raise ValueError(f"a field of {length} bytes leaves the record")
    return None if length < 0 else body[position:stop], stop


def check_count(position: int, end: int, count: int) -> None:
    """Raise ValueError if the bytes up to the end of the record can't be `count` headers."""
    if count < 0 or count > end - position:
        raise ValueError(f"{count} headers in {end - position} bytes")
