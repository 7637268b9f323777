"""The protocol primitives of messages that are packed by hand (protocol guide, "Protocol Primitive Types").

Readers take a buffer and a position and return the value with the next position. They raise `MalformedRequest` instead
of reading beyond the end.
"""

from struct import Struct

I16 = Struct(">h")
I32 = Struct(">i")
I64 = Struct(">q")

EMPTY_TAGS = b"\x00"
NOT_THROTTLED = I32.pack(0)
"""The throttle time of all responses except Produce and Fetch."""
LONGEST_STRING = 2**15 - 1
MOST_TAGS = 10
"""The limit of tagged fields in one skipped section; no structure of the protocol has more than five."""


class MalformedRequest(Exception):
    """The body does not match the request's API and version; the connection is closed."""


class UnencodableMessage(Exception):
    """A message has a value that its version can't represent, such as a long string with a 16-bit length."""


def read_uvarint(view: memoryview, position: int) -> tuple[int, int]:
    try:
        byte = view[position]
    except IndexError:
        raise MalformedRequest("an unsigned varint is longer than 5 bytes or cut off") from None
    # Most varints are one byte: lengths of names, counts of one, empty tag sections.
    return (byte, position + 1) if byte < 0x80 else _read_long_uvarint(view, position)


def _read_long_uvarint(view: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    for at in range(position, min(position + 5, len(view))):
        byte = view[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at + 1
        shift += 7
    raise MalformedRequest("an unsigned varint is longer than 5 bytes or cut off")


def uvarint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def tagged(tag: int, content: bytes) -> bytes:
    """A tagged field (KIP-482)."""
    return uvarint(tag) + uvarint(len(content)) + content


def read_slice(view: memoryview, position: int, length: int) -> tuple[memoryview, int]:
    end = position + length
    if length < 0 or end > len(view):
        raise MalformedRequest(f"a field of {length} bytes does not fit in the rest of the request")
    return view[position:end], end


def read_text(view: memoryview, position: int, length: int) -> tuple[str, int]:
    end = position + length
    if length < 0 or end > len(view):
        raise MalformedRequest(f"a string of {length} bytes does not fit in the rest of the request")
    try:
        return str(view[position:end], "utf-8"), end
    except UnicodeDecodeError as error:
        raise MalformedRequest(f"a string is not UTF-8: {error.reason}") from error


def read_string(view: memoryview, position: int) -> tuple[str | None, int]:
    """A nullable string with an int16 length; None when the length is -1."""
    if position + 2 > len(view):
        raise MalformedRequest("a string length is cut off")
    (length,) = I16.unpack_from(view, position)
    if length == -1:
        return None, position + 2
    return read_text(view, position + 2, length)


def read_compact_string(view: memoryview, position: int) -> tuple[str | None, int]:
    """A nullable compact string: length + 1 as an unsigned varint, 0 for null."""
    length, position = read_uvarint(view, position)
    if length == 0:
        return None, position
    if length > LONGEST_STRING + 1:
        raise MalformedRequest(f"a string of {length - 1} bytes is longer than {LONGEST_STRING}")
    return read_text(view, position, length - 1)


def skip_tags(view: memoryview, position: int) -> int:
    """Skip a section of unused tagged fields."""
    count, position = read_uvarint(view, position)
    if not count:
        return position
    if count > MOST_TAGS:
        raise MalformedRequest(f"{count} tagged fields in one section, at most {MOST_TAGS} are allowed")
    for _ in range(count):
        _tag, position = read_uvarint(view, position)
        size, position = read_uvarint(view, position)
        _raw, position = read_slice(view, position, size)
    return position


def read_i32(view: memoryview, position: int) -> tuple[int, int]:
    if position + 4 > len(view):
        raise MalformedRequest("an int32 is cut off")
    return I32.unpack_from(view, position)[0], position + 4


def string(text: str | None) -> bytes:
    if text is None:
        return b"\xff\xff"
    raw = text.encode()
    if len(raw) > LONGEST_STRING:
        raise UnencodableMessage(f"a string of {len(raw)} bytes is longer than {LONGEST_STRING}")
    return I16.pack(len(raw)) + raw


def compact_string(text: str | None) -> bytes:
    if text is None:
        return b"\x00"
    raw = text.encode()
    return uvarint(len(raw) + 1) + raw


def array_length(count: int, *, flexible: bool) -> bytes:
    return uvarint(count + 1) if flexible else I32.pack(count)
