"""Requests about groups in the network process: every one is answered once, whoever dies, stops or hangs up."""

import socket
import struct
from collections.abc import Callable
from datetime import timedelta

import pytest

from kafkad.core.controller.deltas import FeaturesChanged
from kafkad.core.errors import ErrorCode
from kafkad.processes.network import coordinator_requests
from kafkad.processes.worker import loop as worker_loop
from kafkad.wire.api_table import CONSUMER_GROUP_HEARTBEAT
from tests.handlers.kio_calls import KioApi
from tests.processes.group_requests import (
    COMMIT,
    HEARTBEAT,
    JOIN,
    LIST,
    asked,
    commit,
    committed,
    committed_code,
    join,
    read,
    with_offsets_topic,
)
from tests.processes.pieces import NETWORK, WORKER, Pieces
from tests.processes.sent_frames import SentFrames
from tests.tools.raw_requests import framed

LONG_S = 600


def heartbeat(group: str = "g") -> bytes:
    return asked(HEARTBEAT, group_id=group, generation_id=1, member_id="m")


def waiting_join(make_pieces: Callable[..., Pieces]) -> Pieces:
    pieces = make_pieces(group_initial_rebalance_delay_ms="600000")
    with_offsets_topic(pieces)
    return pieces


def test_before_there_is_an_internal_topic_nobody_is_the_coordinator(pieces: Pieces) -> None:
    client = pieces.connect()
    assert int(read(HEARTBEAT, client.ask(heartbeat())).error_code) == ErrorCode.NOT_COORDINATOR
    listed = read(LIST, client.ask(asked(LIST)))
    assert (int(listed.error_code), listed.groups) == (0, ())


def test_a_commit_comes_back(pieces: Pieces) -> None:
    with_offsets_topic(pieces)
    client = pieces.connect()
    assert committed_code(client, "g", 7) == 0
    assert committed(client, "g") == (0, 7)
    assert committed(client, "other") == (0, -1)
    assert len(pieces.network.request_handlers.coordinators) == 0


def test_a_large_request_takes_the_way_around_the_ring(pieces: Pieces) -> None:
    with_offsets_topic(pieces)
    client = pieces.connect()
    reply = read(JOIN, client.ask(join(metadata=bytes(500_000), session_s=1)))
    assert int(reply.error_code) == ErrorCode.INVALID_SESSION_TIMEOUT


def test_a_worker_that_dies_is_answered_for(make_pieces: Callable[..., Pieces]) -> None:
    pieces = waiting_join(make_pieces)
    waiting, busy = pieces.connect(), pieces.connect()
    waiting.send(join(session_s=LONG_S))
    pieces.run(lambda: len(pieces.network.request_handlers.coordinators) == 1, "the join waits")
    pieces.settle()
    assert not waiting.replies
    busy.send(asked(LIST))
    pieces.turn(NETWORK)
    pieces.replace(WORKER)
    assert int(read(JOIN, waiting.reply()).error_code) == ErrorCode.NOT_COORDINATOR
    assert int(read(LIST, busy.reply()).error_code) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert len(pieces.network.request_handlers.coordinators) == 0


def test_no_worker_is_as_good_as_a_dead_one(pieces: Pieces) -> None:
    with_offsets_topic(pieces)
    client = pieces.connect()
    pieces.kill(WORKER)
    pieces.tell_roster()
    assert int(read(HEARTBEAT, client.ask(heartbeat())).error_code) == ErrorCode.NOT_COORDINATOR


def test_whoever_hangs_up_leaves_nothing_behind(make_pieces: Callable[..., Pieces]) -> None:
    pieces = waiting_join(make_pieces)
    client = pieces.connect()
    client.send(join())
    pieces.run(lambda: len(pieces.network.request_handlers.coordinators) == 1, "the join waits")
    # A reset: who only says that it sends no more may still read the reply.
    client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    pieces.clients.remove(client)
    pieces.run(lambda: len(pieces.network.request_handlers.coordinators) == 0, "the desk forgets it")
    assert pieces.network.request_handlers.coordinators._by_connection == {}


def test_commits_are_under_way_beside_each_other_and_answered_in_order(pieces: Pieces) -> None:
    with_offsets_topic(pieces)
    client = pieces.connect()
    client.send(commit(offset=1) + commit("another", 2) + commit(offset=3) + asked(LIST))
    pieces.turn(NETWORK)
    assert len(pieces.network.request_handlers.coordinators) == 3
    for _ in range(3):
        ((row,),) = (topic.partitions for topic in read(COMMIT, client.reply()).topics)
        assert int(row.error_code) == ErrorCode.NONE
    assert {group.group_id for group in read(LIST, client.reply()).groups} == {"another", "g"}
    assert committed(client) == (0, 3)


def test_a_commit_too_large_for_the_ring_is_not_overtaken(make_pieces: Callable[..., Pieces]) -> None:
    pieces = make_pieces(offset_metadata_max_bytes="30000")
    with_offsets_topic(pieces)
    client = pieces.connect()
    client.send(commit(offset=1) + commit(offset=2, metadata="m" * 30_000, partitions=3) + commit(offset=3))
    most = 0
    while len(client.replies) < 3:
        pieces.turn(NETWORK)
        most = max(most, len(pieces.network.request_handlers.coordinators))
        pieces.settle()
    assert most == 1
    client.replies.clear()
    assert committed(client) == (0, 3)


def test_a_malformed_request_closes_the_connection_only(pieces: Pieces) -> None:
    with_offsets_topic(pieces)
    client, other = pieces.connect(), pieces.connect()
    client.send(framed(JOIN, 0, b"\x00\x01g\x00\x00"))
    pieces.run(lambda: client.is_closed, "the connection is closed")
    assert committed_code(other) == 0


def test_a_stop_sends_away_who_waits(make_pieces: Callable[..., Pieces]) -> None:
    pieces = waiting_join(make_pieces)
    client = pieces.connect()
    client.send(join())
    pieces.run(lambda: len(pieces.network.request_handlers.coordinators) == 1, "the join waits")
    pieces.stop(NETWORK, deadline_ms=pieces.network._now_ms + 1000 * LONG_S)
    assert int(read(JOIN, client.reply()).error_code) == ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize(
    ("protocols", "level", "code"),
    [
        ("classic,consumer", 1, ErrorCode.NONE),
        ("classic,consumer", 0, ErrorCode.UNSUPPORTED_VERSION),
        ("classic", 1, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_the_consumer_protocol_may_be_switched_off(
    make_pieces: Callable[..., Pieces], protocols: str, level: int, code: ErrorCode
) -> None:
    pieces = make_pieces(group_coordinator_rebalance_protocols=protocols)
    pieces.publish(FeaturesChanged({"group.version": level}, 0))
    with_offsets_topic(pieces)
    client = pieces.connect()
    api = KioApi("consumer_group_heartbeat", 0)
    body = api.request(
        group_id="g",
        member_id="",
        member_epoch=0,
        instance_id=None,
        rack_id=None,
        rebalance_timeout=timedelta(seconds=60),
        subscribed_topic_names=("t",),
        server_assignor=None,
        topic_partitions=(),
    )
    # The header of a flexible request ends with tags.
    reply = client.ask(framed(CONSUMER_GROUP_HEARTBEAT, 0, b"\x00" + bytes(body)))
    assert int(api.read(reply[1:]).error_code) == code


def test_who_lists_all_groups_lets_others_go_first(pieces: Pieces, monkeypatch: pytest.MonkeyPatch) -> None:
    with_offsets_topic(pieces, partitions=8)
    lister, other = pieces.connect(), pieces.connect()
    assert committed_code(other, "g", 7) == 0
    monkeypatch.setattr(worker_loop, "STEP_S", 0)
    lister.send(asked(LIST))
    other.send(heartbeat())
    pieces.run(lambda: other.replies, "the heartbeat is answered")
    assert not lister.replies, "one shard is asked in a pass"
    assert [group.group_id for group in read(LIST, lister.reply()).groups] == ["g"]


def test_a_worker_that_is_behind_is_asked_no_more_until_it_has_answered(
    pieces: Pieces, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_offsets_topic(pieces)
    coordinators = pieces.network.request_handlers.coordinators
    sent = SentFrames(to=pieces.network.peers)
    monkeypatch.setattr(coordinators, "_sender", sent)
    api = KioApi("offset_fetch", 8)
    rows = tuple(api.part("OffsetFetchRequestGroup", group_id=f"g{number}", topics=None) for number in range(500))
    request = b"\0" + bytes(api.request(groups=rows, require_stable=False))
    clients = [pieces.connect() for _ in range(3)]
    for client in clients:
        client.send(framed(9, 8, request))
    for _ in range(200):
        pieces.turn(NETWORK)
    assert len(sent.frames) == coordinator_requests.MAX_UNANSWERED
    gone, *others = clients
    gone.sock.close()
    pieces.clients.remove(gone)
    for client in others:
        assert len(api.read(client.reply()[1:]).groups) == 500
    pieces.run(lambda: not coordinators._unanswered, "nothing is left of the one that is gone")


def test_requests_of_clients_that_are_gone_hold_up_nobody_behind_them(pieces: Pieces) -> None:
    with_offsets_topic(pieces)
    coordinators = pieces.network.request_handlers.coordinators
    api = KioApi("offset_fetch", 8)
    rows = tuple(api.part("OffsetFetchRequestGroup", group_id=f"g{number}", topics=None) for number in range(2))
    request = framed(9, 8, b"\0" + bytes(api.request(groups=rows, require_stable=False)))
    *leaving, last = [pieces.connect() for _ in range(41)]
    for client in leaving:
        client.send(request)
    for _ in range(100):
        pieces.turn(NETWORK)
    gone = list(coordinators._by_connection)
    last.send(request)
    for _ in range(100):
        pieces.turn(NETWORK)
    for connection in gone:
        coordinators.connection_closed(connection)
    assert len(api.read(last.reply()[1:]).groups) == 2
    pieces.run(lambda: not coordinators._paused and not coordinators._unanswered, "nothing is left of them")
