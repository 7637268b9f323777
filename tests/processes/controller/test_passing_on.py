"""What a broker makes of the answers of the controller on another one."""

import pytest

from kafkad.core.controller.topics.topics import TopicResult
from kafkad.core.errors import ErrorCode
from kafkad.processes.controller.cluster.asking.passing_on import as_if_made


@pytest.mark.parametrize(
    ("answered", "told"),
    [
        (ErrorCode.NONE, ErrorCode.NONE),
        (ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.NONE),
        (ErrorCode.INVALID_REPLICATION_FACTOR, ErrorCode.INVALID_REPLICATION_FACTOR),
    ],
)
def test_a_topic_that_another_client_made_first_is_made(answered: ErrorCode, told: ErrorCode) -> None:
    """Metadata said TOPIC_ALREADY_EXISTS of a topic that this broker was not told of yet, which no client expects."""
    assert as_if_made(TopicResult(name="orders", code=answered)).code is told
