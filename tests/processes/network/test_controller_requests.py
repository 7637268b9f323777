"""What a network process asks the controller, when that is not there, is replaced, or the client is gone."""

import socket
import struct
from functools import partial
from itertools import count

import pytest

from kafkad.adapters.shared_memory.process_registry import ProcessRegistry
from kafkad.core.errors import ErrorCode
from kafkad.handlers.controller.requests.timeouts import LONGEST_MS
from kafkad.processes.network import controller_requests
from kafkad.processes.network.connections.connection import Connection
from kafkad.processes.network.controller_requests import (
    CREATION_MS,
    SLOW_MS,
    ControllerRequests,
)
from kafkad.processes.runtime.request_mark import LOOP
from kafkad.processes.runtime.turns import STEP_NS
from kafkad.wire.api_table import CREATE_TOPICS, DELETE_TOPICS, INIT_PRODUCER_ID
from kafkad.wire.processes.controller_messages import (
    AdminReply,
    AdminRequest,
    AutoCreated,
    AutoCreateRequest,
    unpack_message,
)
from tests.handlers.kio_calls import KioApi
from tests.processes.pieces import NETWORK, Client, Pieces
from tests.tools.raw_requests import create_topic, delete_topic, framed, metadata, text


class NextController:
    """What an incarnation of the controller is asked from its beginning on."""

    def __init__(self, handler: ControllerRequests, now_ms: int) -> None:
        self.frames: list[bytes] = []
        self._handler = handler
        handler.connected(self.frames.append, now_ms)

    def handle(self, registry: ProcessRegistry, what: str) -> None:
        """Begin to."""
        (token,) = (
            message.token
            for message in map(unpack_message, self.frames)
            if isinstance(message, AdminRequest | AutoCreateRequest) and what in _named(message)
        )
        registry.set_handled(NETWORK, LOOP, token)

    def dies_of(self, registry: ProcessRegistry, what: str) -> None:
        self.handle(registry, what)
        self._handler.disconnected()

    @property
    def asked(self) -> list[str]:
        """APIs by their keys, and topics to be made."""
        found = []
        for message in map(unpack_message, self.frames):
            if isinstance(message, AdminRequest | AutoCreateRequest):
                found += _named(message)
        return found


def _named(message: AdminRequest | AutoCreateRequest) -> list[str]:
    return message.names if isinstance(message, AutoCreateRequest) else [str(message.context.api_key)]


@pytest.fixture
def handler(pieces: Pieces) -> ControllerRequests:
    """The controller is gone, and no other one has come."""
    handler = pieces.network.request_handlers.controller
    handler.disconnected()
    return handler


def sent(pieces: Pieces, request: bytes) -> Client:
    client = pieces.connect()
    client.send(request)
    pieces.settle()
    return client


def hang_up(pieces: Pieces, client: Client) -> None:
    """With a reset: who only says that it sends no more may still read the reply."""
    before = len(pieces.network.clients)
    client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    pieces.clients.remove(client)
    pieces.run(lambda: len(pieces.network.clients) < before, "the network process has noticed")


def now_ms(pieces: Pieces) -> int:
    return pieces.network.clients.now_ms


def any_connection(pieces: Pieces) -> Connection:
    pieces.connect()
    pieces.settle()
    return next(iter(pieces.network.clients._by_fd.values()))


def test_what_a_client_asked_that_has_hung_up_is_not_asked_of_the_next_controller(
    pieces: Pieces, handler: ControllerRequests
) -> None:
    gone, there = sent(pieces, create_topic("unwanted")), sent(pieces, delete_topic("wanted"))
    also_gone = sent(pieces, metadata(["nobody-waits-for-it"]))
    hang_up(pieces, gone)
    hang_up(pieces, also_gone)
    assert NextController(handler, now_ms(pieces)).asked == ["20"]
    hang_up(pieces, there)
    assert handler.held_bytes == 0


def test_what_was_sent_already_is_not_asked_again_for_a_client_that_has_hung_up(pieces: Pieces) -> None:
    handler = pieces.network.request_handlers.controller
    hang_up(pieces, sent(pieces, create_topic("unwanted")))
    assert NextController(handler, now_ms(pieces)).asked == []


def test_a_request_that_no_controller_takes_in_the_time_that_it_names_is_answered(
    pieces: Pieces, handler: ControllerRequests
) -> None:
    client = sent(pieces, create_topic("late"))
    began_ms = now_ms(pieces)
    assert handler.next_deadline_ms is not None and handler.next_deadline_ms <= began_ms + 30_000
    handler.expire(began_ms + 20_000)
    assert handler.held_bytes > 0
    handler.expire(began_ms + 30_000)
    (topic,) = KioApi("create_topics", 2).read(client.reply()).topics
    assert (topic.name, int(topic.error_code)) == ("late", ErrorCode.REQUEST_TIMED_OUT)
    assert handler.next_deadline_ms is None
    assert NextController(handler, began_ms + 30_000).asked == []


def test_a_request_that_a_slow_controller_does_not_answer_in_the_time_that_it_names_is_answered(pieces: Pieces) -> None:
    handler = pieces.network.request_handlers.controller
    controller = NextController(handler, now_ms(pieces))
    client, unknown = sent(pieces, create_topic("late")), sent(pieces, metadata(["new"]))
    began_ms = now_ms(pieces)
    (asked, _) = (unpack_message(frame) for frame in controller.frames)
    assert isinstance(asked, AdminRequest)
    assert handler.next_deadline_ms is not None and handler.next_deadline_ms <= began_ms + SLOW_MS
    for second in range(31):
        handler.expire(began_ms + 1_000 * second)
        if second == CREATION_MS // 1_000 + 2:
            assert b"new" in unknown.reply()
    pieces.settle()
    assert not client.replies
    handler.expire(began_ms + 32_000)
    (topic,) = KioApi("create_topics", 2).read(client.reply()).topics
    assert (topic.name, int(topic.error_code)) == ("late", ErrorCode.REQUEST_TIMED_OUT)
    assert handler.next_deadline_ms is None
    assert handler.held_bytes == 0
    handler.handle(AdminReply(asked.token, b"too late", ""))
    pieces.settle()
    assert not client.replies


def test_a_controller_that_comes_too_late_is_not_asked(pieces: Pieces, handler: ControllerRequests) -> None:
    late, early = sent(pieces, delete_topic("late", timeout_ms=100)), sent(pieces, create_topic("early"))
    following = NextController(handler, now_ms(pieces) + 1_000)
    assert following.asked == [str(CREATE_TOPICS)]
    assert late.reply()
    assert not early.replies


@pytest.mark.parametrize("dies_first", [False, True])
def test_a_broker_that_stops_without_its_controller_lets_nobody_wait_for_another_one(
    pieces: Pieces, dies_first: bool
) -> None:
    """All connections stayed open without a word for fifteen seconds: the one that had asked was not quiet."""
    handler = pieces.network.request_handlers.controller
    handler.connected(lambda _frame: None, now_ms(pieces))
    client = sent(pieces, create_topic("late"))
    for happens in (handler.disconnected, handler.end) if dies_first else (handler.end, handler.disconnected):
        happens()
    pieces.settle()
    ((_, reply),) = client.replies
    (topic,) = KioApi("create_topics", 2).read(reply).topics
    assert int(topic.error_code) == ErrorCode.REQUEST_TIMED_OUT
    assert len(sent(pieces, create_topic("later")).replies) == 1
    assert handler.held_bytes == 0


def test_topics_that_nobody_makes_are_unknown(pieces: Pieces, handler: ControllerRequests) -> None:
    client = sent(pieces, metadata(["new"]))
    handler.expire(now_ms(pieces) + CREATION_MS)
    assert b"new" in client.reply()


def test_topics_whose_creation_a_controller_died_of_are_not_wanted_of_the_next(
    pieces: Pieces, handler: ControllerRequests
) -> None:
    answers: list[dict[str, int]] = []
    handler.create_topics(any_connection(pieces), frozenset({"bad"}), answers.append, now_ms(pieces))
    controller = NextController(handler, now_ms(pieces))
    assert answers == []
    controller.dies_of(pieces.registry, "bad")
    assert answers == [{"bad": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}]
    assert NextController(handler, now_ms(pieces)).asked == []


def test_request_that_a_controller_died_of_gets_an_error_and_only_others_are_sent_to_the_next(
    pieces: Pieces, handler: ControllerRequests, caplog: pytest.LogCaptureFixture
) -> None:
    bad, queued = sent(pieces, create_topic("bad")), sent(pieces, delete_topic("queued"))
    NextController(handler, now_ms(pieces)).dies_of(pieces.registry, str(CREATE_TOPICS))
    (topic,) = KioApi("create_topics", 2).read(bad.reply()).topics
    assert (topic.name, int(topic.error_code)) == ("bad", ErrorCode.UNKNOWN_SERVER_ERROR)
    assert "the request may have been completed" in topic.error_message
    for _ in range(3):
        assert NextController(handler, now_ms(pieces)).asked == [str(DELETE_TOPICS)], "it is sent until one answers"
        handler.disconnected()
    assert not queued.replies and not queued.is_closed
    assert caplog.messages == [f"{bad.name}: the controller died while it handled CreateTopics (version 2)"]


def test_request_of_an_earlier_incarnation_is_not_taken_for_one_of_the_next(pieces: Pieces) -> None:
    """Its controller may still handle what the dead network process has sent."""
    earlier = NextController(pieces.network.request_handlers.controller, now_ms(pieces))
    sent(pieces, create_topic("bad"))
    pieces.replace(NETWORK)
    pieces.run_until_known()
    handler = pieces.network.request_handlers.controller
    later = NextController(handler, now_ms(pieces))
    there = sent(pieces, create_topic("good"))
    earlier.handle(pieces.registry, str(CREATE_TOPICS))
    handler.disconnected()
    assert later.asked == NextController(handler, now_ms(pieces)).asked == [str(CREATE_TOPICS)]
    assert not there.replies


def test_producer_whose_request_a_controller_died_of_may_ask_again(pieces: Pieces, handler: ControllerRequests) -> None:
    client = sent(pieces, framed(INIT_PRODUCER_ID, 0, struct.pack(">hi", -1, 60_000)))
    NextController(handler, now_ms(pieces)).dies_of(pieces.registry, str(INIT_PRODUCER_ID))
    answer = KioApi("init_producer_id", 0).read(client.reply())
    assert int(answer.error_code) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_large_request_that_a_controller_died_of_loses_its_connection(
    pieces: Pieces, handler: ControllerRequests
) -> None:
    client = sent(pieces, many_topics(9_000))
    NextController(handler, now_ms(pieces)).dies_of(pieces.registry, str(CREATE_TOPICS))
    pieces.run(lambda: client.is_closed, "its connection is closed")
    assert handler.held_bytes == 0


def test_any_number_of_clients_may_wait_for_one_topic(pieces: Pieces) -> None:
    handler = pieces.network.request_handlers.controller
    answers: list[dict[str, int]] = []
    connection = any_connection(pieces)
    for _ in range(5_000):
        handler.create_topics(connection, frozenset({"wanted"}), answers.append, now_ms(pieces))
    (token,) = handler._pending
    handler.handle(AutoCreated(token, {"wanted": 0}))
    assert answers == [{"wanted": 0}] * 5_000


def many_topics(count: int) -> bytes:
    """CreateTopics 2 of as many topics, each of one partition and one replica."""
    rows = b"".join(text(f"t{at}") + struct.pack(">ihii", 1, 1, 0, 0) for at in range(count))
    return framed(CREATE_TOPICS, 2, struct.pack(">i", count) + rows + struct.pack(">ib", 30_000, 0))


@pytest.mark.parametrize("is_slow", [True, False], ids=["slow", "gone"])
def test_deadlines_are_found_out_little_by_little(
    pieces: Pieces, monkeypatch: pytest.MonkeyPatch, is_slow: bool
) -> None:
    """A request is decoded for it: with thirty large ones nobody else was served for a second."""
    # Each look at the clock costs a quarter of the time of one pass.
    monkeypatch.setattr(controller_requests, "monotonic_ns", partial(next, count(0, STEP_NS // 4)))
    handler = pieces.network.request_handlers.controller
    controller = NextController(handler, now_ms(pieces))
    clients = [sent(pieces, many_topics(1_500)) for _ in range(20)]
    assert len(controller.asked) == len(clients)
    began_ms = now_ms(pieces)
    if is_slow:
        handler.expire(began_ms + SLOW_MS)
    else:
        handler.disconnected()
    passes = 1
    while handler.next_deadline_ms == 0:
        handler.expire(began_ms + SLOW_MS)
        passes += 1
    assert passes > len(clients) // 4, "one pass takes a few milliseconds of it"
    for _ in clients:
        handler.expire(began_ms + 40_000)
    for client in clients:
        assert len(KioApi("create_topics", 2).read(client.reply()).topics) == 1_500


def test_a_very_large_request_that_no_controller_takes_loses_its_connection(
    pieces: Pieces, handler: ControllerRequests
) -> None:
    """An answer would need all of it decoded in one go."""
    client = sent(pieces, many_topics(9_000))
    began_ms = now_ms(pieces)
    handler.expire(began_ms + LONGEST_MS - 5_000)
    pieces.settle()
    assert not client.is_closed
    handler.expire(began_ms + LONGEST_MS)
    pieces.run(lambda: client.is_closed, "its connection is closed")
    assert handler.held_bytes == 0
