"""AddOffsetsToTxn, versions 0 to 4: adds the partition with a group's offsets to a transaction."""

from typing import Any

from kafkad.core.coordinator.shard import Caller, Moment, Outcome
from kafkad.core.errors import ErrorCode
from kafkad.core.transactions.requests import OffsetsAdded, OffsetsToAdd
from kafkad.core.transactions.shard import TransactionShard
from kafkad.wire.kio_codec import codec

FENCED_FROM = 2
"""Clients of older versions expect INVALID_PRODUCER_EPOCH for a fenced producer."""


def handle(request: Any, caller: Caller, shard: TransactionShard, moment: Moment) -> Outcome[Any]:
    offsets = OffsetsToAdd(request.transactional_id, request.producer_id, request.producer_epoch, request.group_id)
    return shard.add_offsets(caller.token, offsets, moment)


def pack(reply: OffsetsAdded, version: int) -> bytes:
    is_old = version < FENCED_FROM and reply.code is ErrorCode.PRODUCER_FENCED
    code = ErrorCode.INVALID_PRODUCER_EPOCH if is_old else reply.code
    return codec("add_offsets_to_txn", version).encode(error_code=code)


def refuse(request: Any, version: int, code: ErrorCode) -> bytes:
    return pack(OffsetsAdded(code=code), version)
