"""A Produce that takes long goes on in later passes: others are served meanwhile, and no partition's order changes."""

from functools import partial

import pytest

from kafkad.core.errors import ErrorCode
from kafkad.processes.runtime.turns import Turns
from kafkad.processes.worker import appending
from tests.processes.pieces import NETWORK, TOPIC, WORKER, Client, Pieces
from tests.tools.raw_requests import batch, produce, read_produced

MANY = 60


@pytest.fixture
def paced(pieces: Pieces, monkeypatch: pytest.MonkeyPatch) -> Pieces:
    """Every batch takes as long as a pass may."""
    monkeypatch.setattr(appending, "STEP_NS", 0)
    monkeypatch.setattr(appending, "TURN_NS", 0)
    pieces.create_topic("many", MANY)
    pieces.run_until_online("many")
    pieces.run_until_known()
    _pace(pieces, monkeypatch)
    return pieces


def _pace(pieces: Pieces, monkeypatch: pytest.MonkeyPatch) -> None:
    turns = pieces.worker.appender._turns
    monkeypatch.setattr(turns, "work", partial(Turns.work, turns, 0.0))


def _large() -> bytes:
    return produce({("many", partition): batch() for partition in range(MANY)})


def _offsets(body: bytes) -> set[tuple[int, int]]:
    return {(row.error, row.base_offset) for row in read_produced(body).values()}


def test_others_are_answered_while_a_request_to_many_partitions_is_appended(paced: Pieces) -> None:
    large, small = paced.connect(), paced.connect()
    large.send(_large())
    asked = 0
    while not large.replies:
        assert _offsets(small.ask(produce({(TOPIC, 0): batch()}))) == {(0, asked)}
        asked += 1
    assert asked > MANY // 10
    assert _offsets(large.reply()) == {(0, 0)}


def test_what_comes_later_for_the_same_partition_is_appended_later(paced: Pieces) -> None:
    first, second = paced.connect(), paced.connect()
    first.send(_large())
    paced.turn(NETWORK)
    second.send(produce({("many", MANY - 1): batch(), (TOPIC, 1): batch()}))
    assert _offsets(first.reply()) == {(0, 0)}
    rows = read_produced(second.reply())
    assert {key: row.base_offset for key, row in rows.items()} == {("many", MANY - 1): 1, (TOPIC, 1): 0}


def _begun(paced: Pieces, client: Client) -> None:
    client.send(_large())
    paced.run(lambda: paced.worker.appender.is_busy, "it is begun")
    paced.turn()
    assert client.replies == []


def _written(paced: Pieces) -> int:
    by_slot = paced.worker.partitions.by_slot
    logs = [by_slot[paced.slot("many", partition)].log for partition in range(MANY)]
    return sum(log is not None and log.log_end_offset > 0 for log in logs)


def test_rest_of_a_dead_network_process_is_not_appended(paced: Pieces) -> None:
    _begun(paced, paced.connect())
    paced.kill(NETWORK)
    paced.tell_roster()
    paced.turn(WORKER)
    written = _written(paced)
    assert 0 < written < MANY
    paced.run(lambda: not paced.worker.appender.is_busy, "it is forgotten")
    assert _written(paced) == written
    assert not paced.worker.appender._queues


def test_worker_that_stops_appends_the_rest(paced: Pieces) -> None:
    client = paced.connect()
    _begun(paced, client)
    worker = paced.worker
    assert 0 < _written(paced) < MANY
    worker.appender.finish()
    assert _written(paced) == MANY
    assert _offsets(client.reply()) == {(0, 0)}


def test_partition_that_leaves_meanwhile_is_refused_alone(paced: Pieces) -> None:
    client, other = paced.connect(), paced.connect()
    rows = {("many", partition): batch() for partition in range(MANY)}
    client.send(produce({**rows, (TOPIC, 0): batch()}))
    paced.run(lambda: paced.worker.appender.is_busy, "it is begun")
    paced.delete_topic(TOPIC, to=(WORKER,))
    found = read_produced(client.reply())
    assert found.pop((TOPIC, 0)).error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert {row.error for row in found.values()} == {0}
    assert _offsets(other.ask(_large())) == {(0, 1)}
