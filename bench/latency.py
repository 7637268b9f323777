"""End-to-end latency: from sending a record until a waiting consumer receives it, at a low steady rate."""

import select
import time
from dataclasses import dataclass

from bench.connection import Connection
from bench.replies import batch_ends, check_fetch, check_produce
from bench.requests import fetch, produce, record_batch

_FETCH_MAX = 1 << 20
_WAIT_MS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class EndToEnd:
    """The sorted latencies in milliseconds."""

    milliseconds: list[float]

    def quantile(self, fraction: float) -> float:
        return self.milliseconds[min(int(len(self.milliseconds) * fraction), len(self.milliseconds) - 1)]


def measure(port: int, topic: str, *, messages: int, per_second: int, start_offset: int) -> EndToEnd:
    """Send `messages` one by one; a consumer always has a pending fetch at the end of the log."""
    request = produce(topic, {0: record_batch(1, 100)})
    sent: dict[int, float] = {}
    arrived: dict[int, float] = {}
    expected = start_offset
    with Connection(port) as producer, Connection(port) as consumer, select.epoll() as poll:
        poll.register(producer.socket.fileno(), select.EPOLLIN)
        poll.register(consumer.socket.fileno(), select.EPOLLIN)
        consumer.socket.sendall(fetch(topic, 0, expected, max_bytes=_FETCH_MAX, wait_ms=_WAIT_MS))
        due = time.perf_counter() + 0.05
        while len(arrived) < messages:
            now = time.perf_counter()
            if now >= due and len(sent) < messages:
                sent[start_offset + len(sent)] = now
                producer.socket.sendall(request)
                due += 1 / per_second
            for descriptor, _ in poll.poll(max(due - time.perf_counter(), 0) if len(sent) < messages else 5):
                if descriptor == producer.socket.fileno():
                    check_produce(producer.reply())
                    continue
                reply, now = consumer.reply(), time.perf_counter()
                for offset in batch_ends(reply, check_fetch(reply)):
                    arrived[offset] = now
                    expected = offset + 1
                consumer.socket.sendall(fetch(topic, 0, expected, max_bytes=_FETCH_MAX, wait_ms=_WAIT_MS))
    assert sent.keys() == arrived.keys(), "records arrived at other offsets than they were sent"
    return EndToEnd(milliseconds=sorted((arrived[offset] - sent[offset]) * 1_000 for offset in sent))
