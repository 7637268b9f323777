"""AddOffsetsToTxn, versions 0 to 4: adds the partition with a group's offsets to a transaction."""

from typing import Any

from kafkad.core.coordinator.shard import Caller, Moment, Outcome
from kafkad.core.errors import ErrorCode
from kafkad.core.transactions.requests import OffsetsAdded, OffsetsToAdd
from kafkad.core.transactions.shard import TransactionShard
from kafkad.handlers.coordinators.requests.fenced_codes import code_for
from kafkad.wire.kio_codec import codec

FENCED_FROM = 2
"""Clients of older versions expect INVALID_PRODUCER_EPOCH for a fenced producer."""


def handle(request: Any, caller: Caller, shard: TransactionShard, moment: Moment) -> Outcome[Any]:
    offsets = OffsetsToAdd(request.transactional_id, request.producer_id, request.producer_epoch, request.group_id)
    return shard.add_offsets(caller.token, offsets, moment)


def pack(reply: OffsetsAdded, version: int) -> bytes:
    return codec("add_offsets_to_txn", version).encode(error_code=code_for(reply.code, version, FENCED_FROM))


def reject(request: Any, version: int, code: ErrorCode) -> bytes:
    return pack(OffsetsAdded(code=code), version)
