"""EndTxn, versions 0 to 5: commit or abort. From version 5 on the producer gets the epoch of its next transaction."""

from typing import Any

from kafkad.core.coordinator.shard import Caller, Moment, Outcome
from kafkad.core.errors import ErrorCode
from kafkad.core.log.producers.checks import EPOCH_BUMPING
from kafkad.core.transactions.requests import EndTxn, TransactionEnded
from kafkad.core.transactions.shard import TransactionShard
from kafkad.handlers.coordinators.requests.fenced_codes import code_for
from kafkad.wire.kio_codec import codec

FENCED_FROM = 2
"""Clients of older versions expect INVALID_PRODUCER_EPOCH for a fenced producer."""
BUMPS_EPOCH_FROM = 5
"""Clients of this version use transaction version 2."""


def handle(request: Any, caller: Caller, shard: TransactionShard, moment: Moment) -> Outcome[Any]:
    end = EndTxn(
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        is_commit=request.committed,
        client_version=EPOCH_BUMPING if caller.version >= BUMPS_EPOCH_FROM else 0,
    )
    return shard.end_txn(caller.token, end, moment)


def pack(reply: TransactionEnded, version: int) -> bytes:
    return codec("end_txn", version).encode(
        error_code=code_for(reply.code, version, FENCED_FROM),
        producer_id=reply.producer_id,
        producer_epoch=reply.producer_epoch,
    )


def reject(request: Any, version: int, code: ErrorCode) -> bytes:
    return pack(TransactionEnded(code=code), version)
