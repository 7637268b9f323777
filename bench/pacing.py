"""Raw load at a fixed rate, for the resource usage of a broker below its limit."""

import select
import time
from collections import deque
from collections.abc import Callable, Sequence

from bench.connection import Connection
from bench.load import Outcome

_TICK_S = 0.005
_BUFFER = 1 << 16


class _PacedLane:
    """One connection, which sends bursts when they are due, independent of replies."""

    def __init__(self, port: int, burst: bytes, size: int, check: Callable[[memoryview], object]) -> None:
        self.connection = Connection(port)
        self.latencies: list[float] = []
        self._burst = burst
        self._size = size
        self._check = check
        self._sent_at: deque[float] = deque()
        self._received = bytearray()

    def send(self) -> None:
        self._sent_at.extend([time.perf_counter()] * self._size)
        self.connection.socket.sendall(self._burst)

    def on_readable(self) -> int:
        """Receive data; returns the number of complete replies."""
        self._received += self.connection.socket.recv(_BUFFER)
        now, at, complete = time.perf_counter(), 0, 0
        while len(self._received) - at >= 4:
            end = at + 4 + int.from_bytes(self._received[at : at + 4], "big")
            if end > len(self._received):
                break
            if not complete:
                self._check(memoryview(bytes(self._received[at + 4 : end])))
            self.latencies.append(now - self._sent_at.popleft())
            at, complete = end, complete + 1
        del self._received[:at]
        return complete


def run_paced(
    port: int, requests: Sequence[bytes], *, per_second: int, seconds: float, check: Callable[[memoryview], object]
) -> Outcome:
    """Repeat each of `requests` on its own connection, together `per_second`, for `seconds`.

    Checks the first reply of each read.
    """
    size = max(1, round(per_second * _TICK_S / len(requests)))
    lanes = [_PacedLane(port, request * size, size, check) for request in requests]
    due = started = time.perf_counter()
    interval = size * len(requests) / per_second
    missing = 0
    with select.epoll() as poll:
        by_descriptor = {lane.connection.socket.fileno(): lane for lane in lanes}
        for descriptor in by_descriptor:
            poll.register(descriptor, select.EPOLLIN)
        while due < started + seconds or missing:
            now = time.perf_counter()
            is_over = due >= started + seconds
            if not is_over and now >= due:
                for lane in lanes:
                    lane.send()
                missing += size * len(lanes)
                due += interval
            ready = poll.poll(60 if is_over else max(due - time.perf_counter(), 0))
            if is_over and not ready:
                raise TimeoutError("no reply on any connection for a minute")
            missing -= sum(by_descriptor[descriptor].on_readable() for descriptor, _ in ready)
    took = time.perf_counter() - started
    for lane in lanes:
        lane.connection.socket.close()
    latencies = sorted(latency for lane in lanes for latency in lane.latencies)
    return Outcome(requests=len(latencies), received_bytes=0, seconds=took, latencies=latencies)
