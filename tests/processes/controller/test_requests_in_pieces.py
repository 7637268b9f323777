"""A request about very many topics is handled piece by piece: the next one when all processes have the one before."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from kafkad.core.errors import ErrorCode
from kafkad.handlers.controller.requests.controller_view import LONGEST_WAIT_MS
from kafkad.wire import api_table
from kafkad.wire.processes.controller_messages import (
    AdminReply,
    AdminRequest,
    AutoCreated,
    AutoCreateRequest,
)
from tests.contexts import a_context
from tests.handlers.kio_calls import KioApi
from tests.processes.controller.opened import PlayedEvents, events
from tests.processes.pieces import NETWORK, WORKER

CREATE, DELETE = KioApi("create_topics", 7), KioApi("delete_topics", 6)
MANY = [f"topic-{number}" for number in range(250)]
LARGE, SMALL = 1, 2
"""Tokens of the requests."""


@pytest.fixture
def played(tmp_path: Path) -> Iterator[PlayedEvents]:
    with events(tmp_path) as made:
        yield made


def create(token: int, names: list[str], timeout_ms: int = 60_000) -> AdminRequest:
    topics = tuple(
        CREATE.part("CreatableTopic", name=name, num_partitions=1, replication_factor=1, assignments=(), configs=())
        for name in names
    )
    body = CREATE.request(topics=topics, timeout=timedelta(milliseconds=timeout_ms), validate_only=False)
    return AdminRequest(token, a_context(CREATE.version, api_key=api_table.CREATE_TOPICS), bytes(body))


def codes(reply: object) -> dict[str, ErrorCode]:
    assert isinstance(reply, AdminReply) and reply.body is not None
    return codes_in(reply.body)


def codes_in(body: bytes) -> dict[str, ErrorCode]:
    return {each.name: each.error_code for each in CREATE.read(body).topics}


def test_others_create_topics_between_the_pieces_of_a_large_request(played: PlayedEvents) -> None:
    played.hear(NETWORK, create(LARGE, MANY))
    played.hear(NETWORK, create(SMALL, ["small"]))
    played.run_until(lambda: len(played.replies) == 2)
    small, large = played.replies
    assert (small.token, codes(small)) == (SMALL, {"small": ErrorCode.NONE})
    assert (large.token, codes(large)) == (LARGE, dict.fromkeys(MANY, ErrorCode.NONE))
    assert played.topics == {*MANY, "small"}


def test_no_piece_is_handled_before_the_owners_have_made_the_logs_of_the_one_before(played: PlayedEvents) -> None:
    played.hear(NETWORK, create(LARGE, MANY))
    for expected in (100, 200, 250):
        for _ in range(5):
            played.turn()
        assert (len(played.topics), played.replies) == (expected, [])
        played.apply()
    played.run_until(lambda: len(played.replies) == 1)


def test_what_is_not_created_at_the_timeout_is_answered_so_and_created_all_the_same(played: PlayedEvents) -> None:
    played.hear(NETWORK, create(LARGE, MANY, timeout_ms=1_000))
    played.turn()
    played.turn(1_000)
    played.turn()
    (reply,) = played.replies
    answered = codes(reply)
    assert answered == dict.fromkeys(MANY[:100], ErrorCode.NONE) | dict.fromkeys(
        MANY[100:], ErrorCode.REQUEST_TIMED_OUT
    )
    played.run_until(lambda: len(played.topics) == len(MANY))
    played.run_until(lambda: played.is_idle)
    assert played.replies == [reply]


def test_topics_are_deleted_in_pieces_and_answered_when_their_directories_are_gone(played: PlayedEvents) -> None:
    names = [f"topic-{number}" for number in range(1_100)]
    played.hear(NETWORK, AutoCreateRequest(LARGE, names))
    played.run_until(lambda: len(played.replies) == 1)
    request = DELETE.request(
        topics=tuple(DELETE.part("DeleteTopicState", name=name, topic_id=None) for name in names),
        timeout=timedelta(minutes=1),
    )
    context = a_context(DELETE.version, api_key=api_table.DELETE_TOPICS)
    played.hear(NETWORK, AdminRequest(SMALL, context, bytes(request)))
    for left in (600, 100, 0):
        for _ in range(5):
            played.turn()
        assert (len(played.topics), len(played.replies)) == (left, 1)
        # A worker applies it when it has renamed the directories.
        played.apply()
    played.run_until(lambda: len(played.replies) == 2)
    answer = played.replies[1]
    assert isinstance(answer, AdminReply) and answer.body is not None
    assert {each.error_code for each in DELETE.read(answer.body).responses} == {ErrorCode.NONE}


def test_topics_that_requests_use_are_created_in_pieces(played: PlayedEvents) -> None:
    played.hear(NETWORK, AutoCreateRequest(LARGE, MANY))
    played.hear(NETWORK, create(SMALL, ["small"]))
    played.run_until(lambda: len(played.replies) == 2)
    assert played.replies[0].token == SMALL
    assert played.replies[1] == AutoCreated(LARGE, dict.fromkeys(MANY, int(ErrorCode.NONE)))


def test_topics_that_are_not_created_in_time_are_unknown_and_created_all_the_same(played: PlayedEvents) -> None:
    played.hear(NETWORK, AutoCreateRequest(LARGE, MANY))
    # The first piece waits for other processes from now on.
    played.turn(1)
    played.turn()
    played.turn(LONGEST_WAIT_MS - 1)
    played.turn()
    unknown = dict.fromkeys(MANY[100:], int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    assert played.replies == [AutoCreated(LARGE, dict.fromkeys(MANY[:100], 0) | unknown)]
    played.run_until(lambda: len(played.topics) == len(MANY))


def test_creation_goes_on_when_the_process_that_asked_has_ended(played: PlayedEvents) -> None:
    played.hear(NETWORK, create(LARGE, MANY))
    played.turn()
    played.events.peer_ended(NETWORK)
    played.run_until(lambda: len(played.topics) == len(MANY))


@pytest.mark.interpreted
def test_a_request_is_marked_while_one_of_its_pieces_is_handled_only(played: PlayedEvents) -> None:
    """A controller that dies between the pieces did not die of the request: it is sent to the next one."""
    seen = []
    assert played.controller is not None
    tree = played.controller._tree
    before = tree.create_topics

    def create_topics(topics: object) -> None:
        seen.append(played.registry.handled(NETWORK))
        before(topics)  # type: ignore[arg-type]

    tree.create_topics = create_topics  # type: ignore[method-assign]
    played.hear(NETWORK, create(LARGE, MANY))
    while not played.replies:
        played.turn()
        assert played.registry.handled(NETWORK) == ()
        played.apply()
    # Here the store's thread is that of the loop, too.
    assert [set(each) for each in seen] == [{LARGE}] * 3
    assert played.registry.handled(WORKER) == ()
