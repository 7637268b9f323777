"""Which length may a request claim? None from the network is believed before it was looked at here."""

from kafkad.wire.api_table import APIS
from kafkad.wire.framing import describe_stranger
from kafkad.wire.primitives import I16
from kafkad.wire.request_limits import LARGEST_BYTES

SMALLEST_FRAME = 8


class Unacceptable(Exception):
    """What the peer sent can't be a request: the connection is closed with this reason in one log line."""


def bad_length(length: int, most_bytes: int, first: bytes) -> Unacceptable:
    """`first` is what came first, length included: it may be another protocol's."""
    stranger = describe_stranger(first)
    if stranger is not None:
        return Unacceptable(f"this looks like {stranger}")
    return Unacceptable(f"a request length of {length} bytes is outside {SMALLEST_FRAME} to {most_bytes}")


def too_large(length: int, rest: memoryview) -> Unacceptable:
    """Any request but Produce; `rest` is what came first, length included."""
    api = APIS.get(I16.unpack_from(rest, 4)[0])
    name = "" if api is None else f" for {api.name}"
    return Unacceptable(f"a request length of {length} bytes{name} is more than the {LARGEST_BYTES} that are taken")
