"""Requests to the coordinators of a worker: nobody with a little waits for everybody with much."""

from datetime import timedelta

import pytest

from kafkad.core.controller.deltas import FeaturesChanged
from kafkad.core.errors import ErrorCode
from kafkad.wire.api_table import CONSUMER_GROUP_HEARTBEAT
from tests.handlers.kio_calls import KioApi
from tests.processes.group_requests import HEARTBEAT, asked, read, with_offsets_topic
from tests.processes.pieces import NETWORK, WORKER, Pieces
from tests.tools.raw_requests import framed

_API = KioApi("consumer_group_heartbeat", 0)
_BUDGET = "kafkad.processes.worker.coordinators.messages.ASKED_BUDGET_S"


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
    monkeypatch.setattr(_BUDGET, 0.0, raising=False)
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


def test_a_small_heartbeat_does_not_overtake_a_large_one_of_its_group(pieces: Pieces) -> None:
    with_offsets_topic(pieces)
    pieces.publish(FeaturesChanged({"group.version": 1}, 0))
    pieces.settle()
    client = pieces.connect()
    client.send(heartbeat(0, tuple(f"{'t' * 90}{number}" for number in range(20))) + heartbeat(-1))
    joined, left = (_API.read(client.reply()[1:]) for _ in range(2))
    assert int(joined.error_code) == ErrorCode.NONE and joined.member_epoch > 0
    assert (int(left.error_code), left.member_epoch) == (ErrorCode.NONE, -1)
