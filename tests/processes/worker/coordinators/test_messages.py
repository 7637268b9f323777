"""Requests to the coordinators of a worker: nobody with a little waits for everybody with much."""

from datetime import timedelta

import pytest

from kafkad.core.controller.deltas import FeaturesChanged
from kafkad.core.errors import ErrorCode
from kafkad.wire.api_table import CONSUMER_GROUP_HEARTBEAT
from tests.handlers.kio_calls import KioApi
from tests.processes.group_requests import HEARTBEAT, OFFSET_FETCH, asked, commit, read, with_offsets_topic
from tests.processes.pieces import NETWORK, WORKER, Pieces
from tests.tools.raw_requests import framed, text

_FETCH = KioApi("offset_fetch", 2)
_API = KioApi("consumer_group_heartbeat", 0)
_MESSAGES = "kafkad.processes.worker.coordinators.messages"


def heartbeat(epoch: int, topics: tuple[str, ...] | None = None) -> bytes:
    request = _API.request(
        group_id="g",
        member_id="m",
        member_epoch=epoch,
        rebalance_timeout=timedelta(minutes=1),
        subscribed_topic_names=topics,
        topic_partitions=(),
    )
    return framed(CONSUMER_GROUP_HEARTBEAT, 0, b"\x00" + bytes(request))


def test_small_requests_wait_for_their_turn_once_a_pass_has_no_time_left(
    pieces: Pieces, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_offsets_topic(pieces)
    clients = [pieces.connect() for _ in range(12)]
    monkeypatch.setattr(f"{_MESSAGES}.STEP_NS", 0)
    monkeypatch.setattr(f"{_MESSAGES}.STEP_S", 0.0)
    for number, client in enumerate(clients):
        client.send(asked(HEARTBEAT, group_id=f"g{number}", generation_id=1, member_id="nobody"))
    waiting = pieces.network.request_handlers.coordinators
    for client in clients:
        client.pump()
    pieces.turn(NETWORK)
    assert len(waiting) == 12
    pieces.turn(WORKER)
    pieces.turn(NETWORK)
    assert 0 < 12 - len(waiting) < 6
    for client in clients:
        assert int(read(HEARTBEAT, client.reply()).error_code) == ErrorCode.UNKNOWN_MEMBER_ID


def test_others_have_their_turn_while_a_group_is_told_of_very_many_offsets(
    pieces: Pieces, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_offsets_topic(pieces)
    pieces.create_topic("t", 50)
    pieces.run_until_online("t")
    client, other = pieces.connect(), pieces.connect()
    client.ask(commit(partitions=50))
    for name in (
        "core.groups.offsets.fetch.MAX_BUILT_ROWS",
        "handlers.coordinators.groups.offset_fetch.MAX_BUILT_ROWS",
    ):
        monkeypatch.setattr(f"kafkad.{name}", 10, raising=False)
    monkeypatch.setattr("kafkad.wire.messages.offset_replies.STEP", 10, raising=False)
    monkeypatch.setattr("kafkad.processes.worker.loop.STEP_S", 0.0)
    client.send(framed(OFFSET_FETCH, 2, text("g") + b"\xff\xff\xff\xff"))
    client.pump()
    pieces.turn(NETWORK)
    pieces.turn(WORKER)
    pieces.turn(NETWORK)
    assert len(pieces.network.request_handlers.coordinators) == 1, "it is packed a step in each turn"
    beat = other.ask(asked(HEARTBEAT, group_id="g", generation_id=1, member_id="nobody"))
    assert int(read(HEARTBEAT, beat).error_code) == ErrorCode.UNKNOWN_MEMBER_ID
    (topic,) = _FETCH.read(client.reply()).topics
    assert {row.partition_index: row.committed_offset for row in topic.partitions} == dict.fromkeys(range(50), 7)


def test_a_small_heartbeat_does_not_overtake_a_large_one_of_its_group(pieces: Pieces) -> None:
    with_offsets_topic(pieces)
    pieces.publish(FeaturesChanged({"group.version": 1}, 0))
    pieces.run_until_known()
    client = pieces.connect()
    client.send(heartbeat(0, tuple(f"{'t' * 90}{number}" for number in range(20))) + heartbeat(-1))
    joined, left = (_API.read(client.reply()[1:]) for _ in range(2))
    assert int(joined.error_code) == ErrorCode.NONE and joined.member_epoch > 0
    assert (int(left.error_code), left.member_epoch) == (ErrorCode.NONE, -1)
