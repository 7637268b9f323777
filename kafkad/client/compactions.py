"""The compacted logs of a broker, from the page /cleaner of its metrics listener."""

from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from time import monotonic, sleep

import msgspec

_PATH = "/cleaner"
_PAUSE_S = 0.02


class NoCompactions(Exception):
    """The page can't be read; the message has the reason."""


class LastCompaction(msgspec.Struct, frozen=True):
    """The last completed compaction of a log."""

    ended_ms: int
    seconds: float
    cleaned_offset: int
    records_read: int
    records_written: int
    bytes_read: int
    bytes_written: int


class LogCompaction(msgspec.Struct, frozen=True):
    """`state` is idle, waiting, compacting or quarantined. `failure` is the reason why the log can't be compacted.

    `retry_ms` is the time of the next attempt; None if only a change of the topic's configuration causes one.
    """

    topic: str
    partition: int
    state: str
    dirty_ratio: float
    cleanable_bytes: int
    last: LastCompaction | None
    failure: str | None
    retry_ms: int | None


def compactions(host: str, port: int, timeout_s: float) -> list[LogCompaction]:
    """The current state of the compacted logs. Raises `NoCompactions`."""
    deadline = monotonic() + timeout_s
    first: int | None = None
    while True:
        page = _page(host, port, max(0.1, deadline - monotonic()))
        first = page.asked if first is None else first
        if page.answered >= first:
            return page.partitions
        if monotonic() > deadline:
            raise NoCompactions(f"a cleaner of the broker at {host}:{port} did not respond within {timeout_s} s")
        sleep(_PAUSE_S)


class _Page(msgspec.Struct):
    asked: int
    answered: int
    partitions: list[LogCompaction]


def _page(host: str, port: int, timeout_s: float) -> _Page:
    connection = HTTPConnection(host, port, timeout=timeout_s)
    try:
        connection.request("GET", _PATH)
        response = connection.getresponse()
        body = response.read()
        if response.status != HTTPStatus.OK:
            raise NoCompactions(f"{host}:{port} has no page {_PATH}: is it the kafkad.metrics.listener of a broker?")
        return _decoder.decode(body)
    except (OSError, HTTPException, msgspec.MsgspecError) as error:
        raise NoCompactions(f"kafkad.metrics.listener at {host}:{port} can't be read: {error}") from error
    finally:
        connection.close()


_decoder = msgspec.json.Decoder(_Page)
