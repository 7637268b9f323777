"""What the controller makes of answers to its requests."""

import pytest

from kafkad.core.cluster.control_requests import (
    EPOCH_DURING_DELETE,
    StopReplicaError,
    StopReplicaPartition,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopic,
)
from kafkad.core.controller.elected.announcements import deleted_topics
from kafkad.core.errors import ErrorCode

REFUSED = ErrorCode.KAFKA_STORAGE_ERROR


def stop(**epochs: int) -> StopReplicaRequest:
    """Of topics with two partitions each, by leader epoch."""
    return StopReplicaRequest(
        controller_id=1,
        controller_epoch=1,
        broker_epoch=1,
        topic_states=tuple(
            StopReplicaTopic(
                topic_name=name,
                partition_states=tuple(
                    StopReplicaPartition(partition_index=index, leader_epoch=epoch, delete_partition=True)
                    for index in (0, 1)
                ),
            )
            for name, epoch in epochs.items()
        ),
    )


def answer(*codes: tuple[str, int, ErrorCode], code: ErrorCode = ErrorCode.NONE) -> StopReplicaResponse:
    errors = tuple(StopReplicaError(topic_name=name, partition_index=at, error_code=each) for name, at, each in codes)
    return StopReplicaResponse(error_code=code, partition_errors=errors)


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (answer(("t", 0, ErrorCode.NONE), ("t", 1, ErrorCode.NONE)), True),
        (answer(("t", 0, ErrorCode.NONE), ("t", 1, REFUSED)), False),
        (answer(code=ErrorCode.STALE_BROKER_EPOCH), False),
        (None, False),
    ],
    ids=["deleted", "one refused", "all refused", "unreadable"],
)
def test_a_topic_is_deleted_when_no_partition_is_refused(response: StopReplicaResponse | None, expected: bool) -> None:
    assert deleted_topics(stop(t=EPOCH_DURING_DELETE), response) == {"t": expected}


def test_replicas_that_a_reassignment_removed_are_no_deletion_of_their_topic() -> None:
    assert deleted_topics(stop(t=7), answer()) == {}
