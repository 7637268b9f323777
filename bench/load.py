"""Raw load: encoded requests over plain sockets, with a fixed number in flight on each.

Replies are counted by their length and discarded, except a sample that is checked for error codes: a broker that
rejects requests would otherwise seem fast.
"""

import select
import struct
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.connection import Connection

_HEAD = 2_048  # of a reply: enough for everything before the records
_BUFFER = 1 << 20
_CHECK_EVERY = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of the load; latencies are sorted seconds from sending to the complete reply."""

    requests: int
    received_bytes: int
    seconds: float
    latencies: list[float]

    def latency_ms(self, quantile: float) -> float:
        return self.latencies[min(int(len(self.latencies) * quantile), len(self.latencies) - 1)] * 1_000


class Lane:
    """One connection with up to `in_flight` outstanding requests, until `total` have a reply."""

    def __init__(
        self,
        port: int,
        requests: Sequence[bytes],
        *,
        total: int,
        in_flight: int,
        check: Callable[[memoryview], object],
    ) -> None:
        self.connection = Connection(port)
        self.latencies: list[float] = []
        self.received_bytes = 0
        self._requests = requests
        self._to_send = total
        self._outstanding = total
        self._in_flight = in_flight
        self._check = check
        self._next = 0
        self._sent_at: deque[float] = deque()
        self._view = memoryview(bytearray(_BUFFER))
        self._filled = 0
        self._to_discard = 0

    @property
    def finished(self) -> bool:
        return self._outstanding == 0

    def start(self) -> None:
        self._send(self._in_flight)

    def on_readable(self) -> None:
        """Receive data, and send one request for each complete reply."""
        got = self.connection.socket.recv_into(self._view[self._filled :])
        if not got:
            raise ConnectionError("the broker closed the connection under load")
        self._filled += got
        self.received_bytes += got
        self._send(self._walk())

    def _walk(self) -> int:
        at = complete = 0
        filled, view = self._filled, self._view
        while at < filled:
            if self._to_discard:
                taken = min(self._to_discard, filled - at)
                self._to_discard -= taken
                at += taken
            elif filled - at < 4 or filled - at < min(self._length(at), _HEAD):
                break
            else:
                length = self._length(at)
                if (self._outstanding - complete) % _CHECK_EVERY == 0:
                    self._check(view[at + 4 : min(at + length, filled)])
                self._to_discard = length
                continue
            if not self._to_discard:
                complete += 1
        view[: filled - at] = view[at:filled]
        self._filled = filled - at
        self._on_replies(complete)
        return complete

    def _length(self, at: int) -> int:
        length: int = struct.unpack_from(">i", self._view, at)[0]
        return length + 4

    def _on_replies(self, count: int) -> None:
        now = time.perf_counter()
        self._outstanding -= count
        for _ in range(count):
            self.latencies.append(now - self._sent_at.popleft())

    def _send(self, count: int) -> None:
        count = min(count, self._to_send)
        if not count:
            return
        self._to_send -= count
        batch = []
        for _ in range(count):
            batch.append(self._requests[self._next])
            self._next = (self._next + 1) % len(self._requests)
        now = time.perf_counter()
        self._sent_at.extend([now] * count)
        self.connection.socket.sendall(batch[0] if count == 1 else b"".join(batch))


def run(lanes: Sequence[Lane]) -> Outcome:
    """Run all lanes in this thread until each is finished."""
    started = time.perf_counter()
    with select.epoll() as poll:
        by_descriptor = {lane.connection.socket.fileno(): lane for lane in lanes}
        for descriptor, lane in by_descriptor.items():
            poll.register(descriptor, select.EPOLLIN)
            lane.start()
        while by_descriptor:
            for descriptor, _ in poll.poll(60) or _raise_timeout():
                lane = by_descriptor[descriptor]
                lane.on_readable()
                if lane.finished:
                    poll.unregister(descriptor)
                    del by_descriptor[descriptor]
    seconds = time.perf_counter() - started
    for lane in lanes:
        lane.connection.socket.close()
    latencies = sorted(latency for lane in lanes for latency in lane.latencies)
    return Outcome(
        requests=len(latencies),
        received_bytes=sum(lane.received_bytes for lane in lanes),
        seconds=seconds,
        latencies=latencies,
    )


def _raise_timeout() -> list[tuple[int, int]]:
    raise TimeoutError("no reply on any connection for a minute")
