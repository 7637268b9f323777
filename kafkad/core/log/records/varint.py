"""How are the lengths and deltas inside a record encoded? (zigzag varints, at most 32 or 64 bits)

Readers take `bytes` and a position, and return the value and the position after it. They raise `ValueError` for a
number that is too long, and `IndexError` at the end of the bytes.
"""


def append_varint(out: bytearray, value: int) -> None:
    zigzag = (value << 1) ^ (value >> 63)
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """A 32-bit number: lengths, counts, offset deltas."""
    byte = data[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    value, position = _read_long_form(data, position, 5)
    if not -0x80000000 <= value <= 0x7FFFFFFF:
        raise ValueError("varint exceeds 32 bits")
    return value, position


def read_varlong(data: bytes, position: int) -> tuple[int, int]:
    """A 64-bit number: timestamp deltas."""
    byte = data[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    value, position = _read_long_form(data, position, 10)
    if not -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF:
        raise ValueError("varint exceeds 64 bits")
    return value, position


def _read_long_form(data: bytes, position: int, max_bytes: int) -> tuple[int, int]:
    zigzag = 0
    for shift in range(0, 7 * max_bytes, 7):
        byte = data[position]
        position += 1
        zigzag |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (zigzag >> 1) ^ -(zigzag & 1), position
    raise ValueError(f"varint has more than {max_bytes} bytes")
