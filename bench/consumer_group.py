"""Members of a group of the new protocol (KIP-848), multiplexed: their heartbeats wait for nobody."""

import time
from collections.abc import Sequence

from bench.connection import Connection
from bench.group_replies import read_heartbeat
from bench.group_requests import consumer_heartbeat, consumer_join

_LEAVE = -1
_TIMEOUT_S = 60.0
_PAUSE_S = 0.005


class _Member:
    __slots__ = ("assigned", "epoch", "has_news", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.epoch = 0
        self.assigned: dict[bytes, list[int]] = {}
        self.has_news = False


class ConsumerGroup:
    """`size` members that share as many partitions of one topic."""

    def __init__(self, port: int, group: str, topic: str, size: int) -> None:
        self._connection = Connection(port)
        self._group = group
        self._topic = topic
        self._members = [_Member(f"{group}-{index}") for index in range(size)]
        self.heartbeats = 0

    def join(self) -> float:
        """Seconds until each member owns its one partition, in the same epoch, and has said so.

        As clients do, members answer news at once; between rounds without any they pause.
        """
        started = time.perf_counter()
        self._round([consumer_join(self._group, member.name, self._topic) for member in self._members])
        while not self._is_settled():
            if time.perf_counter() > started + _TIMEOUT_S:
                raise TimeoutError(f"no settled assignment after {self.heartbeats} heartbeats")
            if not any(member.has_news for member in self._members):
                time.sleep(_PAUSE_S)
            self._round([self._heartbeat(member) for member in self._members])
        return time.perf_counter() - started

    def settled_heartbeats(self) -> list[bytes]:
        """One of each member that has nothing to say."""
        return [consumer_heartbeat(self._group, member.name, member.epoch, None) for member in self._members]

    def close(self) -> None:
        """Everybody leaves."""
        for member in self._members:
            self._connection.ask(consumer_heartbeat(self._group, member.name, _LEAVE, None))
        self._connection.socket.close()

    def _heartbeat(self, member: _Member) -> bytes:
        owned = member.assigned if member.has_news else None
        return consumer_heartbeat(self._group, member.name, member.epoch, owned)

    def _round(self, requests: Sequence[bytes]) -> None:
        self._connection.socket.sendall(b"".join(requests))
        for member in self._members:
            beaten = read_heartbeat(self._connection.reply())
            member.epoch = beaten.epoch
            member.has_news = beaten.assigned is not None and beaten.assigned != member.assigned
            if beaten.assigned is not None:
                member.assigned = beaten.assigned
        self.heartbeats += len(requests)

    def _is_settled(self) -> bool:
        owned = [sum(len(partitions) for partitions in member.assigned.values()) for member in self._members]
        epochs = {member.epoch for member in self._members}
        return set(owned) == {1} and len(epochs) == 1 and not any(member.has_news for member in self._members)
