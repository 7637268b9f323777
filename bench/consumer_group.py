"""Members of a group of the consumer protocol (KIP-848) on one connection: heartbeats do not wait for other members."""

import time
from collections.abc import Sequence

from bench.connection import Connection
from bench.group_replies import read_heartbeat
from bench.group_requests import consumer_heartbeat, consumer_join

_LEAVE = -1
_TIMEOUT_S = 60.0
_PAUSE_S = 0.005


class _Member:
    __slots__ = ("assigned", "epoch", "is_changed", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.epoch = 0
        self.assigned: dict[bytes, list[int]] = {}
        self.is_changed = False


class ConsumerGroup:
    """A group of `size` members and a topic with `size` partitions."""

    def __init__(self, port: int, group: str, topic: str, size: int) -> None:
        self._connection = Connection(port)
        self._group = group
        self._topic = topic
        self._members = [_Member(f"{group}-{index}") for index in range(size)]
        self.heartbeats = 0

    def join(self) -> float:
        """Seconds until each member owns one partition, in the same epoch, and has acknowledged it.

        As clients do, members acknowledge a changed assignment at once, and pause otherwise.
        """
        started = time.perf_counter()
        self._round([consumer_join(self._group, member.name, self._topic) for member in self._members])
        while not self._is_settled():
            if time.perf_counter() > started + _TIMEOUT_S:
                raise TimeoutError(f"no settled assignment after {self.heartbeats} heartbeats")
            if not any(member.is_changed for member in self._members):
                time.sleep(_PAUSE_S)
            self._round([self._heartbeat(member) for member in self._members])
        return time.perf_counter() - started

    def unchanged_heartbeats(self) -> list[bytes]:
        """One heartbeat of each member without a change."""
        return [consumer_heartbeat(self._group, member.name, member.epoch, None) for member in self._members]

    def close(self) -> None:
        """All members leave the group."""
        for member in self._members:
            self._connection.request(consumer_heartbeat(self._group, member.name, _LEAVE, None))
        self._connection.socket.close()

    def _heartbeat(self, member: _Member) -> bytes:
        owned = member.assigned if member.is_changed else None
        return consumer_heartbeat(self._group, member.name, member.epoch, owned)

    def _round(self, requests: Sequence[bytes]) -> None:
        self._connection.socket.sendall(b"".join(requests))
        for member in self._members:
            reply = read_heartbeat(self._connection.reply())
            member.epoch = reply.epoch
            member.is_changed = reply.assigned is not None and reply.assigned != member.assigned
            if reply.assigned is not None:
                member.assigned = reply.assigned
        self.heartbeats += len(requests)

    def _is_settled(self) -> bool:
        owned = [sum(len(partitions) for partitions in member.assigned.values()) for member in self._members]
        epochs = {member.epoch for member in self._members}
        return set(owned) == {1} and len(epochs) == 1 and not any(member.is_changed for member in self._members)
