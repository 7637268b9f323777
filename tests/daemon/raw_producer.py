"""A producer that never sends anything twice: what acks=1 with retries=0 promises, without a library's own queue.

librdkafka puts requests that it had not begun to send back into its queue when a connection breaks, whatever
`retries` says, and newer ones overtake them. Here a request is sent once, and counts as refused when its connection
breaks; the next one has newer numbers.
"""

import select
import struct
import time
from collections import deque
from dataclasses import dataclass

import crc32c

from bench.connection import Connection
from bench.replies import Reader
from bench.requests import produce, varint
from tests.daemon.ledger import Ledger

IN_FLIGHT = 20
_RECONNECT_WITHIN_S = 60.0
_PAUSE_S = 0.01


@dataclass(frozen=True, slots=True)
class Sent:
    """One request that has no answer yet: consecutive numbers to one partition."""

    partition: int
    first: int
    count: int


class RawProducer:
    """Pipelined Produce v9 with acks=1 over one connection at a time."""

    def __init__(self, port: int, topic: str, ledger: Ledger) -> None:
        self._port = port
        self._topic = topic
        self._ledger = ledger
        self._in_flight: deque[Sent] = deque()
        self._connection = Connection(port)

    def send(self, partition: int, count: int) -> None:
        """The next `count` numbers of the partition, in one batch; waits while too much is in flight."""
        first = self._ledger.sent[partition]
        self._ledger.sent[partition] += count
        request = produce(self._topic, {partition: _batch(range(first, first + count))})
        self._in_flight.append(Sent(partition, first, count))
        try:
            self._connection.socket.sendall(request)
        except OSError:
            self._lost()
        while self.take(0) or len(self._in_flight) >= IN_FLIGHT:
            self.take(1)

    def take(self, timeout: float) -> bool:
        """One answer, if it comes in time."""
        if not self._in_flight:
            return False
        readable, _, _ = select.select([self._connection.socket], [], [], timeout)
        if not readable:
            return False
        try:
            reply = self._connection.reply()
        except OSError:
            self._lost()
            return False
        self._answered(self._in_flight.popleft(), reply)
        return True

    def flush(self, timeout: float) -> int:
        """Wait for all answers; how many are missing."""
        deadline = time.monotonic() + timeout
        while self._in_flight and time.monotonic() < deadline:
            self.take(0.1)
        self._connection.socket.close()
        return len(self._in_flight)

    def _answered(self, sent: Sent, reply: bytes) -> None:
        reader = Reader(reply)
        assert len(reader.items()) == 1
        assert reader.text() == self._topic
        assert len(reader.items()) == 1
        assert reader.number("i") == sent.partition, "an answer to another request"
        error, base_offset = reader.number("h"), reader.number("q")
        if error:
            self._ledger.refused.append(f"error {error}")
            return
        pairs = ((sent.first + index, base_offset + index) for index in range(sent.count))
        self._ledger.acknowledged[sent.partition].extend(pairs)

    def _lost(self) -> None:
        self._ledger.refused.extend("connection lost" for _ in self._in_flight)
        self._in_flight.clear()
        self._connection.socket.close()
        deadline = time.monotonic() + _RECONNECT_WITHIN_S
        while True:
            try:
                self._connection = Connection(self._port)
                return
            except OSError:
                assert time.monotonic() < deadline, "the broker does not come back"
                time.sleep(_PAUSE_S)


def _batch(numbers: range) -> bytes:
    """A record batch whose values begin with their numbers."""
    payload = bytearray()
    for delta, number in enumerate(numbers):
        value = b"%d %s" % (number, b"x" * (number % 150))
        body = b"\0" + varint(0) + varint(delta) + varint(-1) + varint(len(value)) + value + b"\0"
        payload += varint(len(body)) + body
    now = int(time.time() * 1_000)
    head = struct.pack(">hiqqqhii", 0, len(numbers) - 1, now, now, -1, -1, -1, len(numbers))
    checked = head + payload
    return struct.pack(">qiibI", 0, 9 + len(checked), -1, 2, crc32c.crc32c(bytes(checked))) + checked
