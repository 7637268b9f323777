"""Requests about transactions as kio writes them, through the handler, to what kio reads."""

from struct import Struct
from typing import Any

from kafkad.core.coordinator.shard import Caller
from kafkad.core.errors import ErrorCode
from kafkad.handlers.coordinators.transactions import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_transactions,
    end_txn,
    init_producer_id,
    list_transactions,
)
from kafkad.wire.kio_codec import codec
from tests.core.coordinator.memory_log import Refused
from tests.core.transactions.bed import TransactionBed
from tests.handlers.kio_calls import KioApi

MODULES: dict[str, Any] = {
    "add_offsets_to_txn": add_offsets_to_txn,
    "add_partitions_to_txn": add_partitions_to_txn,
    "describe_transactions": describe_transactions,
    "end_txn": end_txn,
    "init_producer_id": init_producer_id,
    "list_transactions": list_transactions,
}
_NO_TIME = Struct(">q").pack(-1)


def call(bed: TransactionBed, api: str, version: int, **values: Any) -> Any:
    """The response to a request with these `values`, of which each version takes those that it has."""
    kio, module = KioApi(api, version), MODULES[api]
    request = codec(api, version).decode(kio.request(**nested(kio, values)))

    def rule(caller: Caller) -> Any:
        return module.handle(request, caller, bed.shard, bed.moment)

    reply = bed.answers[bed.ask(rule, version=version)]
    if isinstance(reply, Refused):
        return read(kio, api, module.reject(request, version, reply.code))
    return read(kio, api, module.pack(reply, version))


def refuse(api: str, version: int, code: ErrorCode, **values: Any) -> Any:
    kio = KioApi(api, version)
    request = codec(api, version).decode(kio.request(**nested(kio, values)))
    return read(kio, api, MODULES[api].reject(request, version, code))


def read(kio: KioApi, api: str, body: bytes) -> Any:
    """kio reads no time before 1970, and that is how DescribeTransactions says that nothing has begun."""
    return kio.read(body.replace(_NO_TIME, bytes(8)) if api == "describe_transactions" else body)


def nested(kio: KioApi, values: dict[str, Any]) -> dict[str, Any]:
    """`topics` and `transactions` are given as plain values, and become kio's."""

    def topics(rows: dict[str, tuple[int, ...]]) -> tuple[Any, ...]:
        made = (kio.part("AddPartitionsToTxnTopic", name=name, partitions=each) for name, each in rows.items())
        return tuple(made)

    made = dict(values)
    if "topics" in made:
        made["v3_and_below_topics"] = topics(made.pop("topics"))
    if "transactions" in made:
        made["transactions"] = tuple(
            kio.part("AddPartitionsToTxnTransaction", **{**each, "topics": topics(each["topics"])})
            for each in made["transactions"]
        )
    return made
