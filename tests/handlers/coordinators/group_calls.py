"""Requests about groups as a client writes them, through the handler, to what the client reads, maybe later."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from kafkad.core.coordinator.shard import Caller, Outcome
from kafkad.core.errors import ErrorCode
from kafkad.core.groups.records import GroupRecord
from kafkad.handlers.coordinators.groups import (
    delete_groups,
    describe_groups,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    sync_group,
)
from kafkad.wire.kio_codec import codec
from tests.core.coordinator.memory_log import Refused
from tests.core.groups.classic_bed import GROUP, ClassicBed
from tests.handlers.kio_calls import KioApi

MODULES: dict[str, Any] = {
    "join_group": join_group,
    "sync_group": sync_group,
    "heartbeat": heartbeat,
    "leave_group": leave_group,
    "describe_groups": describe_groups,
    "list_groups": list_groups,
    "delete_groups": delete_groups,
}


class Call:
    """One request. `answer` is what the client reads, as soon as there is something."""

    def __init__(self, bed: ClassicBed, name: str, version: int, values: dict[str, Any]) -> None:
        self.api = KioApi(name, version)
        self.bed = bed
        self.module = MODULES[name]
        self.request = codec(name, version).decode(self.api.request(**values))
        self.token = bed.ask(self._handle, version=version)

    @property
    def answer(self) -> Any:
        reply = self.bed.answers[self.token]
        if isinstance(reply, Refused):
            return self.api.read(self.module.reject(self.request, self.api.version, reply.code))
        return self.api.read(self.module.pack(reply, self.api.version))

    def refused(self, code: ErrorCode) -> Any:
        """What it would read if the whole request got `code`."""
        reject: Callable[..., bytes] = self.module.reject
        return self.api.read(reject(self.request, self.api.version, code))

    def _handle(self, caller: Caller) -> Outcome[GroupRecord]:
        outcome: Outcome[GroupRecord] = self.module.handle(self.request, caller, self.bed.shard, self.bed.moment)
        return outcome


def join(bed: ClassicBed, version: int, member_id: str = "", **values: Any) -> Call:
    api = KioApi("join_group", version)
    protocol = api.part("JoinGroupRequestProtocol", name="range", metadata=b"metadata")
    whole = {
        "group_id": GROUP,
        "member_id": member_id,
        "group_instance_id": None,
        "session_timeout": timedelta(seconds=10),
        "rebalance_timeout": timedelta(seconds=30),
        "protocol_type": "consumer",
        "protocols": (protocol,),
        "reason": "a test",
    }
    return Call(bed, "join_group", version, whole | values)


def sync(bed: ClassicBed, version: int, member_id: str, generation: int, **values: Any) -> Call:
    api = KioApi("sync_group", version)
    share = api.part("SyncGroupRequestAssignment", member_id=member_id, assignment=b"assignment")
    whole = {
        "group_id": GROUP,
        "generation_id": generation,
        "member_id": member_id,
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": (share,),
    }
    return Call(bed, "sync_group", version, whole | values)


def beat(bed: ClassicBed, version: int, member_id: str, generation: int, **values: Any) -> Call:
    whole = {"group_id": GROUP, "generation_id": generation, "member_id": member_id, "group_instance_id": None}
    return Call(bed, "heartbeat", version, whole | values)


def leave(bed: ClassicBed, version: int, member_id: str, **values: Any) -> Call:
    whole: dict[str, Any] = {"group_id": GROUP, "member_id": member_id}
    if version >= 3:
        member = KioApi("leave_group", version).part(
            "MemberIdentity", member_id=member_id, group_instance_id=None, reason="enough"
        )
        whole["members"] = (member,)
    return Call(bed, "leave_group", version, whole | values)
