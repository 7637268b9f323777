"""Joins the responses to the pieces of one request into one response, as bytes, without decoding the rows.

These responses consist of a head, one array and, in flexible versions, an empty section of tagged fields.
"""

from collections.abc import Sequence

from kafkad.wire.primitives import EMPTY_TAGS, I16, array_length, read_compact_string, read_i32, read_uvarint, uvarint


def join_arrays(bodies: Sequence[bytes], head_size: int, *, flexible: bool) -> bytes:
    """The head of the first body, then the elements of all bodies in order."""
    count, rows = 0, []
    for body in bodies:
        view = memoryview(body)
        if flexible:
            length, at = read_uvarint(view, head_size)
            length -= 1
            rows.append(view[at : len(view) - len(EMPTY_TAGS)])
        else:
            length, at = read_i32(view, head_size)
            rows.append(view[at:])
        count += length
    tags = EMPTY_TAGS if flexible else b""
    return b"".join((bodies[0][:head_size], array_length(count, flexible=flexible), *rows, tags))


def join_portions(bodies: Sequence[bytes], head_size: int, *, flexible: bool, has_error: bool) -> bytes:
    """Join responses of OffsetCommit, or of OffsetFetch for one group.

    The error of a group is the last field. If one response has an error, it is the result.
    """
    tail_size = (I16.size if has_error else 0) + (len(EMPTY_TAGS) if flexible else 0)
    if has_error:
        for body in bodies:
            if I16.unpack_from(body, len(body) - tail_size)[0]:
                return body
        tail = bodies[0][len(bodies[0]) - tail_size :]
        end = EMPTY_TAGS if flexible else b""
        bare = [body[: len(body) - tail_size] + end for body in bodies]
        joined = join_arrays(bare, head_size, flexible=flexible)
        return joined[: len(joined) - len(end)] + tail
    return join_arrays(bodies, head_size, flexible=flexible)


_GROUPS_AT = 4
_GROUP_END = I16.size + 2 * len(EMPTY_TAGS)
"""After the topics of the last group: its error, its tagged fields and the tagged fields of the response."""


def join_groups(bodies: Sequence[bytes]) -> list[bytes]:
    """Join neighbouring responses of OffsetFetch, version 8 or later, that are about the same single group."""
    joined: list[bytes] = []
    group: str | None = None
    portions: list[tuple[int, bytes]] = []
    for body in bodies:
        view = memoryview(body)
        count, at = read_uvarint(view, _GROUPS_AT)
        name, at = read_compact_string(view, at) if count == 2 else (None, at)
        if name is None or name != group:
            joined += _one_group(portions)
            portions, group = [], name
        portions.append((at, body))
    return joined + _one_group(portions)


def _one_group(portions: list[tuple[int, bytes]]) -> list[bytes]:
    if len(portions) < 2:
        return [body for _, body in portions]
    for _, body in portions:
        if I16.unpack_from(body, len(body) - _GROUP_END)[0]:
            return [body]
    count, rows = 0, []
    for at, body in portions:
        length, rows_at = read_uvarint(memoryview(body), at)
        count += length - 1
        rows.append(body[rows_at : len(body) - _GROUP_END])
    at, first = portions[0]
    return [b"".join((first[:at], uvarint(count + 1), *rows, first[len(first) - _GROUP_END :]))]
