"""A consumer of the classic protocol by hand: one request after the other, as a test decides, with its error codes.

Requests and replies are kio's, not of our making. What is refused because a coordinator moves or loads is asked
again by `patiently`, as every client does.
"""

import socket
import time
from collections.abc import Callable
from datetime import timedelta
from struct import Struct
from typing import Any

from bench.brokers.processes import WITHIN_S
from kafkad.core.errors import ErrorCode
from kafkad.wire.api_table import APIS
from tests.handlers.kio_calls import KioApi

_PAUSE_S = 0.02
MOVING = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
_HEAD = Struct(">hhih")
_LENGTH = Struct(">i")
_KEYS = {"".join(f"_{c.lower()}" if c.isupper() else c for c in api.name).lstrip("_"): api for api in APIS.values()}


class GroupClient:
    """One connection. `send` and `receive` apart, for requests that wait in the broker."""

    def __init__(self, port: int, client_id: str = "by-hand") -> None:
        self._client_id = client_id.encode()
        self._sock = socket.create_connection(("127.0.0.1", port), timeout=WITHIN_S)
        self._asked: list[tuple[KioApi, bool]] = []

    def __enter__(self) -> "GroupClient":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._sock.close()

    def send(self, name: str, version: int, build: Callable[[KioApi], dict[str, Any]]) -> None:
        api = KioApi(name, version)
        known = _KEYS[name]
        is_flexible = version >= known.flexible_from
        tags = b"\x00" if is_flexible else b""
        body = bytes(api.request(**build(api)))
        head = _HEAD.pack(known.key, version, 1, len(self._client_id)) + self._client_id + tags
        self._sock.sendall(_LENGTH.pack(len(head) + len(body)) + head + body)
        self._asked.append((api, is_flexible))

    def receive(self) -> Any:
        api, is_flexible = self._asked.pop(0)
        (size,) = _LENGTH.unpack(self._read(4))
        frame = self._read(size)
        return api.read(frame[5 if is_flexible else 4 :])

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._sock.recv(size - len(data))
            if not more:
                raise ConnectionError("the broker closed the connection")
            data += more
        return data

    def ask(self, name: str, version: int, **values: Any) -> Any:
        """A request without nested parts."""
        self.send(name, version, lambda _api: values)
        return self.receive()

    # What consumers ask.

    def send_join(self, group: str, member: str = "", *, session_ms: int = 60_000, protocol: bytes = b"s") -> None:
        def build(api: KioApi) -> dict[str, Any]:
            return {
                "group_id": group,
                "session_timeout": _ms(session_ms),
                "rebalance_timeout": _ms(session_ms),
                "member_id": member,
                "protocol_type": "consumer",
                "protocols": (api.part("JoinGroupRequestProtocol", name="range", metadata=protocol),),
            }

        # Version 3 needs no second request for the member id.
        self.send("join_group", 3, build)

    def join(self, group: str, member: str = "", **options: Any) -> Any:
        self.send_join(group, member, **options)
        return self.receive()

    def send_sync(self, group: str, generation: int, member: str, assignments: dict[str, bytes]) -> None:
        def build(api: KioApi) -> dict[str, Any]:
            return {
                "group_id": group,
                "generation_id": generation,
                "member_id": member,
                "assignments": tuple(
                    api.part("SyncGroupRequestAssignment", member_id=each, assignment=assignment)
                    for each, assignment in assignments.items()
                ),
            }

        self.send("sync_group", 2, build)

    def sync(self, group: str, generation: int, member: str, assignments: dict[str, bytes]) -> Any:
        self.send_sync(group, generation, member, assignments)
        return self.receive()

    def heartbeat(self, group: str, generation: int, member: str) -> ErrorCode:
        reply = self.ask("heartbeat", 2, group_id=group, generation_id=generation, member_id=member)
        return ErrorCode(int(reply.error_code))

    def leave(self, group: str, member: str) -> ErrorCode:
        return ErrorCode(int(self.ask("leave_group", 2, group_id=group, member_id=member).error_code))

    def commit(
        self, group: str, offsets: dict[tuple[str, int], int], generation: int = -1, member: str = ""
    ) -> ErrorCode:
        """The one code of all partitions."""

        def build(api: KioApi) -> dict[str, Any]:
            topics = tuple(
                api.part(
                    "OffsetCommitRequestTopic",
                    name=topic,
                    partitions=(
                        api.part(
                            "OffsetCommitRequestPartition",
                            partition_index=partition,
                            committed_offset=offset,
                            committed_leader_epoch=-1,
                            committed_metadata="",
                        ),
                    ),
                )
                for (topic, partition), offset in offsets.items()
            )
            return {
                "group_id": group,
                "generation_id_or_member_epoch": generation,
                "member_id": member,
                "topics": topics,
            }

        self.send("offset_commit", 6, build)
        reply = self.receive()
        (code,) = {int(row.error_code) for topic in reply.topics for row in topic.partitions}
        return ErrorCode(code)

    def fetch_offsets(self, *groups: str) -> dict[str, tuple[ErrorCode, dict[tuple[str, int], int]]]:
        """Everything that the groups have committed, by group."""

        def build(api: KioApi) -> dict[str, Any]:
            return {
                "groups": tuple(api.part("OffsetFetchRequestGroup", group_id=group, topics=None) for group in groups)
            }

        self.send("offset_fetch", 8, build)
        return {
            group.group_id: (
                ErrorCode(int(group.error_code)),
                {
                    (topic.name, row.partition_index): int(row.committed_offset)
                    for topic in group.topics
                    for row in topic.partitions
                },
            )
            for group in self.receive().groups
        }

    def describe(self, *groups: str) -> dict[str, Any]:
        return {
            row.group_id: row
            for row in self.ask("describe_groups", 5, groups=groups, include_authorized_operations=False).groups
        }

    def list_groups(self) -> tuple[ErrorCode, dict[str, str]]:
        """Group → state."""
        reply = self.ask("list_groups", 4, states_filter=())
        return ErrorCode(int(reply.error_code)), {row.group_id: row.group_state for row in reply.groups}

    def find(self, *keys: str, key_type: int = 0) -> dict[str, Any]:
        reply = self.ask("find_coordinator", 4, key_type=key_type, coordinator_keys=keys)
        return {row.key: row for row in reply.coordinators}


def patiently(ask: Callable[[], ErrorCode]) -> ErrorCode:
    """Ask until the coordinator has settled; the code that it gives then."""
    deadline = time.monotonic() + WITHIN_S
    while (code := ask()) in MOVING:
        assert time.monotonic() < deadline, f"the coordinator says {code.name} for {WITHIN_S} s"
        time.sleep(_PAUSE_S)
    return code


def _ms(number: int) -> timedelta:
    return timedelta(milliseconds=number)
