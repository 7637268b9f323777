"""InitProducerId, versions 0 to 5, of transactional producers: an id and an epoch that fences previous producers."""

from typing import Any

from kafkad.core.coordinator.shard import Caller, Moment, Outcome
from kafkad.core.errors import ErrorCode
from kafkad.core.transactions.requests import InitProducerId, ProducerInitialized
from kafkad.core.transactions.shard import TransactionShard
from kafkad.core.transactions.state import NO_EPOCH
from kafkad.core.types import NO_PRODUCER_ID
from kafkad.handlers.coordinators.requests.fenced_codes import code_for
from kafkad.wire.kio_codec import codec, milliseconds

FENCED_FROM = 4
"""Clients of older versions expect INVALID_PRODUCER_EPOCH for a fenced producer."""


def handle(request: Any, caller: Caller, shard: TransactionShard, moment: Moment) -> Outcome[Any]:
    # From version 3 on the request contains the producer's previous id and epoch.
    init = InitProducerId(
        transactional_id=request.transactional_id,
        timeout_ms=milliseconds(request.transaction_timeout),
        producer_id=getattr(request, "producer_id", NO_PRODUCER_ID),
        producer_epoch=getattr(request, "producer_epoch", NO_EPOCH),
    )
    return shard.init_producer_id(caller.token, init, moment)


def pack(reply: ProducerInitialized, version: int) -> bytes:
    return codec("init_producer_id", version).encode(
        error_code=code_for(reply.code, version, FENCED_FROM),
        producer_id=reply.producer_id,
        producer_epoch=reply.producer_epoch,
    )


def reject(request: Any, version: int, code: ErrorCode) -> bytes:
    return pack(ProducerInitialized(code=code), version)
