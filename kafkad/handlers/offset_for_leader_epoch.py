"""OffsetForLeaderEpoch, versions 2 to 4: where did a leader epoch end?

From this, clients detect lost records (KIP-320). The answer has the largest epoch not after the requested one, which
may have no records.
"""

from collections.abc import Generator, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.request_context import RequestContext
from kafkad.handlers.partitions.leadership import find_leader
from kafkad.handlers.requests.broker_view import BrokerView, NotYet
from kafkad.handlers.requests.steps import ROWS_A_STEP, Pause, Steps, Waits, in_steps, until_known
from kafkad.wire.messages.offset_for_leader_epoch import (
    EpochEnd,
    RequestedEpoch,
    pack_response,
    pack_topic,
    read_request,
)


class _Question(NamedTuple):
    topic: str
    wanted: RequestedEpoch


def handle(body: memoryview, context: RequestContext, view: BrokerView) -> Steps:
    topics = yield from read_request(body, context.version)
    questions = [_Question(name, row) for name, rows in topics for row in rows]
    ends = iter((yield from in_steps(questions, partial(_result, view), partial(_ask_ahead, view))))
    packed = []
    for name, rows in topics:
        packed.append(pack_topic(context.version, name, [next(ends) for _ in rows]))
        if len(packed) % ROWS_A_STEP == 0:
            yield Pause.TURN
    return pack_response(context.version, packed)


def _ask_ahead(view: BrokerView, questions: Iterable[_Question]) -> None:
    for topic, wanted in questions:
        with suppress(KafkaError):
            view.logs.reader(*find_leader(view, topic, wanted.partition, wanted.current_leader_epoch))


def _result(view: BrokerView, question: _Question) -> Generator[Waits, Any, EpochEnd]:
    try:
        return (yield from until_known(partial(_end, view, question)))
    except KafkaError as error:
        return EpochEnd(error.code, question.wanted.partition)


def _end(view: BrokerView, question: _Question) -> Generator[Waits, Any, EpochEnd]:
    topic, wanted = question
    slot, published = find_leader(view, topic, wanted.partition, wanted.current_leader_epoch)
    reader = view.logs.reader(slot, published)
    if reader is None:
        raise NotYet
    yield from ()
    end = reader.epoch_end_offset(wanted.leader_epoch, published.leo_offset, published.leader_epoch)
    return EpochEnd(ErrorCode.NONE, wanted.partition, *end)
