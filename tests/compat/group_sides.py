"""Members of classic groups on raw connections, the same on both brokers, and what they are answered made comparable.

Each member has a connection of its own, since a join waits. Random parts of ids are replaced; the order of members in
a response, which is that of a Java hash table, is lost by sorting. Nothing else is.
"""

import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from datetime import timedelta
from enum import Enum
from struct import Struct
from types import TracebackType
from typing import Any, Self

from bench.brokers.broker import RunningBroker
from bench.brokers.processes import eventually
from kafkad.wire.api_table import APIS
from tests.handlers.kio_calls import KioApi
from tests.tools.raw_requests import RawClient

_HEADER = Struct(">hhih")
_SIZE = Struct(">i")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_KEYS = {re.sub(r"(?<!^)(?=[A-Z])", "_", api.name).lower(): key for key, api in APIS.items()}

SESSION = timedelta(seconds=3)
REBALANCE = timedelta(seconds=3)


class Member:
    """A client with its connection. What it is answered is written into the transcript of its side."""

    def __init__(self, side: "Side", name: str) -> None:
        self.side = side
        self.name = name
        self.client = RawClient(side.broker.port)
        self.member_id = ""
        self.generation = -1
        self._asked: tuple[KioApi, str] | None = None

    def send(self, api: str, version: int, **values: Any) -> None:
        """A request, whose answer `hear` waits for."""
        call = KioApi(api, version)
        key = _KEYS[api]
        name = self.name.encode()
        header = _HEADER.pack(key, version, 7, len(name)) + name
        if version >= APIS[key].flexible_from:
            header += b"\0"
        frame = header + bytes(call.request(**values))
        self.client.send(_SIZE.pack(len(frame)) + frame)
        self._asked = call, api

    def hear(self) -> Any:
        assert self._asked is not None
        call, api = self._asked
        _, body = self.client.reply()
        if call.version >= APIS[_KEYS[api]].flexible_from:
            body = body[1:]
        answer = call.read(body)
        self.side.transcript.append((self.name, api, call.version, comparable(answer)))
        return answer

    def ask(self, api: str, version: int, **values: Any) -> Any:
        self.send(api, version, **values)
        return self.hear()

    # What members say.

    def send_join(self, version: int = 9, **values: Any) -> None:
        part = KioApi("join_group", version).part
        protocols = values.pop("protocols", (("range", b"metadata"),))
        whole = {
            "group_id": self.side.group,
            "session_timeout": SESSION,
            "rebalance_timeout": REBALANCE,
            "member_id": self.member_id,
            "group_instance_id": None,
            "protocol_type": "any",
            "protocols": tuple(part("JoinGroupRequestProtocol", name=n, metadata=m) for n, m in protocols),
            "reason": None,
        }
        self.send("join_group", version, **(whole | values))

    def hear_join(self) -> Any:
        answer = self.hear()
        if int(answer.error_code) in (0, 79):
            self.member_id, self.generation = answer.member_id, answer.generation_id
        return answer

    def join(self, version: int = 9, **values: Any) -> Any:
        self.send_join(version, **values)
        return self.hear_join()

    def send_sync(self, version: int = 5, *assigned: "Member", **values: Any) -> None:
        part = KioApi("sync_group", version).part
        shares = tuple(
            part("SyncGroupRequestAssignment", member_id=each.member_id, assignment=f"for {each.name}".encode())
            for each in assigned
        )
        whole = {
            "group_id": self.side.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": None,
            "protocol_type": "any",
            "protocol_name": "range",
            "assignments": shares,
        }
        self.send("sync_group", version, **(whole | values))

    def sync(self, version: int = 5, *assigned: "Member", **values: Any) -> Any:
        self.send_sync(version, *assigned, **values)
        return self.hear()

    def heartbeat(self, version: int = 4, **values: Any) -> Any:
        whole = {
            "group_id": self.side.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": None,
        }
        return self.ask("heartbeat", version, **(whole | values))

    def beat_until(self, code: int, *, beside: "Member | None" = None) -> None:
        """Heartbeats until one is answered with `code`; how many that takes is not written down."""

        def is_there() -> bool:
            self.side.transcript, before = [], self.side.transcript
            if beside is not None:
                beside.heartbeat()
            found = int(self.heartbeat().error_code) == code
            self.side.transcript = before
            return found

        eventually(is_there, what=f"{self.name} is told {code}")

    def leave(self, version: int = 5, *rows: tuple[str, str | None], **values: Any) -> Any:
        part = KioApi("leave_group", max(version, 3)).part
        members = tuple(
            part("MemberIdentity", member_id=member_id, group_instance_id=instance_id, reason="r")
            for member_id, instance_id in rows or ((self.member_id, None),)
        )
        whole = {"group_id": self.side.group, "member_id": self.member_id, "members": members}
        return self.ask("leave_group", version, **(whole | values))

    def describe(self, version: int = 6, *group_ids: str) -> Any:
        values = {"groups": group_ids or (self.side.group,), "include_authorized_operations": True}
        return self.ask("describe_groups", version, **values)

    def list(self, version: int = 5, states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> Any:
        """Written down without the groups of other tests."""
        self.send("list_groups", version, states_filter=states, types_filter=types)
        answer = self.hear()
        name, api, version, told = self.side.transcript.pop()
        told["groups"] = [each for each in told["groups"] if each["group_id"] == self.side.group]
        self.side.transcript.append((name, api, version, told))
        return answer

    def delete(self, version: int = 2, *group_ids: str) -> Any:
        return self.ask("delete_groups", version, groups_names=group_ids or (self.side.group,))


class Side:
    """One broker, one group, its members and what they heard."""

    def __init__(self, broker: RunningBroker, group: str) -> None:
        self.broker = broker
        self.group = group
        self.transcript: list[tuple[str, str, int, Any]] = []
        self.members: list[Member] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for member in self.members:
            member.client.sock.close()

    def member(self, name: str) -> Member:
        self.members.append(Member(self, name))
        return self.members[-1]

    def let_arrive(self) -> None:
        """What was sent and waits has been looked at: another connection has had its answers since."""
        before = list(self.transcript)
        tool = self.member("tool")
        for _ in range(5):
            tool.describe()
        self.transcript = before

    def pair(self) -> tuple[Member, Member]:
        """A stable group of two; the first leads."""
        first, second = self.member("first"), self.member("second")
        for each in (first, second):
            each.join()
            each.send_join()
            self.let_arrive()
        for each in (first, second):
            each.hear_join()
        second.send_sync()
        first.sync(5, first, second)
        second.hear()
        return first, second


Scenario = Callable[[Side], None]


def comparable(value: Any) -> Any:
    """An answer as plain values, members in the order of their names."""
    if isinstance(value, Enum):
        return value.name
    if is_dataclass(value):
        return {each.name: comparable(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, tuple):
        return sorted((comparable(each) for each in value), key=repr)
    if isinstance(value, str):
        return _UUID.sub("UUID", value)
    return value
