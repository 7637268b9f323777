"""Requests about offsets as a client writes them, through the handler, to what the client reads."""

from collections.abc import Callable
from typing import Any

from kafkad.core.coordinator.shard import Caller, Outcome
from kafkad.core.errors import ErrorCode
from kafkad.core.groups.records import GroupRecord
from kafkad.handlers.coordinators.groups import offset_commit, offset_delete, offset_fetch, txn_offset_commit
from kafkad.wire.kio_codec import codec
from tests.core.coordinator.memory_log import Bed, Refused
from tests.handlers.kio_calls import KioApi

MODULES: dict[str, Any] = {
    "offset_commit": offset_commit,
    "offset_delete": offset_delete,
    "offset_fetch": offset_fetch,
    "txn_offset_commit": txn_offset_commit,
}


def call(bed: Bed[GroupRecord], api: KioApi, name: str, **values: Any) -> Any:
    """The response to a request with these `values`, of which each version takes those that it has."""
    module = MODULES[name]
    request = codec(name, api.version).decode(api.request(**values))

    def rule(caller: Caller) -> Outcome[GroupRecord]:
        outcome: Outcome[GroupRecord] = module.handle(request, caller, bed.shard, bed.moment)
        return outcome

    reply = bed.answers[bed.ask(rule, version=api.version)]
    if isinstance(reply, Refused):
        return api.read(module.reject(request, api.version, reply.code))
    return api.read(module.pack(reply, api.version))


def refuse(api: KioApi, name: str, code: ErrorCode, **values: Any) -> Any:
    request = codec(name, api.version).decode(api.request(**values))
    refusal: Callable[..., bytes] = MODULES[name].reject
    return api.read(refusal(request, api.version, code))
