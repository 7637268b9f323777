"""ConsumerGroupHeartbeat responses, packed by hand, are what kio makes of them by Kafka's schema."""

from datetime import timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from kafkad.wire import error_counts
from kafkad.wire.api_table import CONSUMER_GROUP_HEARTBEAT
from kafkad.wire.messages.consumer_replies import pack_consumer_heartbeat
from tests.handlers.kio_calls import KioApi, versions_of

TEXTS = st.none() | st.text(alphabet=st.characters(codec="utf-8"), max_size=20) | st.just("x" * 300)
ASSIGNMENTS = st.none() | st.dictionaries(
    st.uuids().filter(lambda topic_id: topic_id != UUID(int=0)),
    st.frozensets(st.integers(0, 2**31 - 1), max_size=4) | st.just(frozenset(range(200))),
    max_size=3,
)


@pytest.mark.parametrize("version", versions_of(CONSUMER_GROUP_HEARTBEAT))
@given(
    code=st.sampled_from((0, 25, 110, -1)),
    message=TEXTS,
    member_id=TEXTS,
    member_epoch=st.integers(-2, 2**31 - 1),
    interval_ms=st.integers(0, 2**31 - 1),
    assignment=ASSIGNMENTS,
)
def test_a_heartbeat_is_answered_as_by_its_schema(
    version: int,
    code: int,
    message: str | None,
    member_id: str | None,
    member_epoch: int,
    interval_ms: int,
    assignment: dict[UUID, frozenset[int]] | None,
) -> None:
    api = KioApi("consumer_group_heartbeat", version)
    by_schema = api.response(
        throttle_time=timedelta(0),
        error_code=ErrorCode(code),
        error_message=message,
        member_id=member_id,
        member_epoch=member_epoch,
        heartbeat_interval=timedelta(milliseconds=interval_ms),
        assignment=_assignment(api, assignment),
    )
    by_hand = pack_consumer_heartbeat(
        code,
        message,
        member_id=member_id,
        member_epoch=member_epoch,
        heartbeat_interval_ms=interval_ms,
        assignment=assignment,
    )
    assert by_hand == by_schema


def test_the_code_is_counted_among_those_that_were_told() -> None:
    error_counts.take()
    pack_consumer_heartbeat(110, None, member_id=None, member_epoch=0, heartbeat_interval_ms=0, assignment=None)
    assert error_counts.take() == [(110, 1)]


def _assignment(api: KioApi, assignment: dict[UUID, frozenset[int]] | None) -> object:
    if assignment is None:
        return None
    rows = tuple(
        api.response_part("TopicPartitions", topic_id=topic_id, partitions=tuple(sorted(partitions)))
        for topic_id, partitions in sorted(assignment.items())
    )
    return api.response_part("Assignment", topic_partitions=rows)
