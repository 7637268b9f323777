"""Members of a classic group, each with its own connection: JoinGroup and SyncGroup wait for the other members."""

import select
import time

from bench.connection import Connection
from bench.group_replies import MEMBER_ID_REQUIRED, check_sync, read_join
from bench.group_requests import assignment, join_group, leave_group, subscription, sync_group


class ClassicGroup:
    """All members in one thread. `join` rebalances the whole group; the first one includes the initial delay."""

    def __init__(self, port: int, group: str, topic: str, size: int) -> None:
        self._group = group
        self._topic = topic
        self._members = [""] * size
        self._metadata = b""
        self._is_syncing = [False] * size
        self._poll = select.epoll()
        self._connections = [Connection(port) for _ in range(size)]
        self._by_descriptor = {each.socket.fileno(): at for at, each in enumerate(self._connections)}
        for descriptor in self._by_descriptor:
            self._poll.register(descriptor, select.EPOLLIN)

    def join(self, turn: int) -> float:
        """Seconds until all members have joined and synced. Each `turn` has new metadata, which starts a rebalance."""
        self._metadata = subscription(self._topic, turn.to_bytes(4, "big"))
        requests = [join_group(self._group, member, self._metadata) for member in self._members]
        self._is_syncing = [False] * len(requests)
        waiting = len(requests)
        started = time.perf_counter()
        for connection, request in zip(self._connections, requests, strict=True):
            connection.socket.sendall(request)
        while waiting:
            ready = self._poll.poll(60)
            if not ready:
                raise TimeoutError(f"{waiting} of {len(requests)} members wait for a minute")
            waiting -= sum(self._on_reply(self._by_descriptor[descriptor]) for descriptor, _ in ready)
        return time.perf_counter() - started

    def _on_reply(self, at: int) -> bool:
        """Handle a reply. Returns whether this member has completed."""
        connection = self._connections[at]
        frame = connection.reply()
        if self._is_syncing[at]:
            assert check_sync(frame) > 0, "a member without an assignment"
            return True
        joined = read_join(frame)
        self._members[at] = joined.member
        if joined.error == MEMBER_ID_REQUIRED:
            connection.socket.sendall(join_group(self._group, joined.member, self._metadata))
            return False
        assert len(joined.members) in (0, len(self._members)), "a generation without some of the members"
        given = {member: assignment(self._topic, partition) for partition, member in enumerate(joined.members)}
        self._is_syncing[at] = True
        connection.socket.sendall(sync_group(self._group, joined.generation, joined.member, given))
        return False

    def close(self) -> None:
        """Leave the group, so that no session expires during other rows."""
        self._connections[0].request(leave_group(self._group, self._members))
        for connection in self._connections:
            connection.socket.close()
        self._poll.close()
