"""OffsetForLeaderEpoch, versions 2 to 4: the end offset of a leader epoch.

With it clients detect log truncation (KIP-320). The result is the largest epoch up to the requested one, because the
requested epoch may have no records.
"""

from collections.abc import Generator, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.request_context import RequestContext
from kafkad.handlers.partitions.leadership import find_leader
from kafkad.handlers.requests.broker_view import BrokerView, ManifestPending
from kafkad.handlers.requests.steps import ROWS_A_STEP, Pause, Steps, Waits, in_steps, retry_until_read
from kafkad.wire.messages.offset_for_leader_epoch import (
    EpochEnd,
    RequestedEpoch,
    pack_response,
    pack_topic,
    read_request,
)


class _PartitionRequest(NamedTuple):
    topic: str
    requested: RequestedEpoch


def handle(body: memoryview, context: RequestContext, view: BrokerView) -> Steps:
    topics = yield from read_request(body, context.version)
    partitions = [_PartitionRequest(name, row) for name, rows in topics for row in rows]
    ends = iter((yield from in_steps(partitions, partial(_result, view), partial(_request_manifests, view))))
    packed = []
    for name, rows in topics:
        packed.append(pack_topic(context.version, name, [next(ends) for _ in rows]))
        if len(packed) % ROWS_A_STEP == 0:
            yield Pause.TURN
    return pack_response(context.version, packed)


def _request_manifests(view: BrokerView, partitions: Iterable[_PartitionRequest]) -> None:
    for topic, requested in partitions:
        with suppress(KafkaError):
            view.logs.reader(*find_leader(view, topic, requested.partition, requested.current_leader_epoch))


def _result(view: BrokerView, partition: _PartitionRequest) -> Generator[Waits, Any, EpochEnd]:
    try:
        return (yield from retry_until_read(partial(_end, view, partition)))
    except KafkaError as error:
        return EpochEnd(error.code, partition.requested.partition)


def _end(view: BrokerView, partition: _PartitionRequest) -> Generator[Waits, Any, EpochEnd]:
    topic, requested = partition
    slot, published = find_leader(view, topic, requested.partition, requested.current_leader_epoch)
    reader = view.logs.reader(slot, published)
    if reader is None:
        raise ManifestPending
    yield from ()
    end = reader.epoch_end_offset(requested.leader_epoch, published.leo_offset, published.leader_epoch)
    return EpochEnd(ErrorCode.NONE, requested.partition, *end)
