"""A partition with very many producers is described in steps: who produces does not wait for all of them."""

from functools import partial

import pytest

from kafkad.adapters.operating_system.clocks import monotonic_ms
from kafkad.core.errors import ErrorCode
from kafkad.core.log.producers.entry import ProducerEntry
from kafkad.processes.network.connections.loop_pass import CONTINUED_PER_PASS
from kafkad.processes.runtime.turns import Turns
from kafkad.processes.worker import partition_requests
from kafkad.wire.steps import STEP
from tests.handlers.kio_calls import KioApi
from tests.processes.pieces import NETWORK, TOPIC, Pieces
from tests.tools.raw_requests import batch, framed, produce, read_produced

DESCRIBE_PRODUCERS = 61
API = KioApi("describe_producers", 0)
MANY = 20 * STEP


@pytest.fixture
def paced(pieces: Pieces, monkeypatch: pytest.MonkeyPatch) -> Pieces:
    turns = pieces.worker.partition_requests._turns
    monkeypatch.setattr(turns, "work", partial(Turns.work, turns, 0.0))
    partition_log = pieces.worker.partitions.by_slot[pieces.slot()].log
    assert partition_log is not None
    for number in range(MANY):
        partition_log.producers._entries[number] = ProducerEntry(number)
    return pieces


def _request(*partitions: int) -> bytes:
    topic = API.part("TopicRequest", name=TOPIC, partition_indexes=partitions)
    return framed(DESCRIBE_PRODUCERS, 0, b"\0" + bytes(API.request(topics=(topic,))))


def test_others_produce_while_producers_are_described(paced: Pieces) -> None:
    asking, writer = paced.connect(), paced.connect()
    asking.send(_request(0))
    asked = 0
    while not asking.replies:
        assert read_produced(writer.ask(produce({(TOPIC, 1): batch()})))[TOPIC, 1].base_offset == asked
        asked += 1
    assert asked > 5
    ((described,),) = (topic.partitions for topic in API.read(asking.reply()[1:]).topics)
    assert sorted(row.producer_id for row in described.active_producers) == list(range(MANY))


def test_partition_that_is_named_twice_costs_its_owner_and_the_wire_once(paced: Pieces) -> None:
    client = paced.connect()
    steps = []
    for partitions in ((0,), (0, 0)):
        client.send(_request(*partitions))
        paced.run(lambda: paced.worker.partition_requests.is_busy, "it is begun")
        steps.append(0)
        while paced.worker.partition_requests.is_busy:
            paced.turn()
            steps[-1] += 1
        (topic,) = API.read(client.reply()[1:]).topics
        assert [len(row.active_producers) for row in topic.partitions] == [MANY]
    assert steps[0] == steps[1]


def test_partitions_behind_too_many_producers_are_refused(paced: Pieces, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_requests, "MOST_DESCRIBED_BYTES", 1_000)
    client = paced.connect()
    client.send(_request(0, 1))
    paced.run(lambda: client.replies, "it is answered")
    (topic,) = API.read(client.reply()[1:]).topics
    assert [(int(row.error_code), len(row.active_producers)) for row in topic.partitions] == [
        (ErrorCode.NONE, MANY),
        (ErrorCode.INVALID_REQUEST, 0),
    ]
    client.send(_request(1))
    paced.run(lambda: client.replies, "it is answered alone")
    (topic,) = API.read(client.reply()[1:]).topics
    assert [int(row.error_code) for row in topic.partitions] == [ErrorCode.NONE]


def test_replies_about_producers_are_made_one_after_the_other(paced: Pieces) -> None:
    clients = [paced.connect() for _ in range(8)]
    for client in clients:
        client.send(_request(0))
    while not all(client.replies for client in clients):
        paced.turn()
        assert len(paced.network.request_handlers.owners._parts) <= 1
        assert not paced.network.clients.unread.waiting
    for client in clients:
        (topic,) = API.read(client.reply()[1:]).topics
        assert [len(row.active_producers) for row in topic.partitions] == [MANY]


def test_nobody_is_told_who_has_died_meanwhile(paced: Pieces) -> None:
    paced.connect().send(_request(0))
    paced.run(lambda: paced.worker.partition_requests.is_busy, "it is begun")
    paced.kill(NETWORK)
    paced.tell_roster()
    paced.run(lambda: not paced.worker.partition_requests.is_busy, "it is done")
    paced.begin(NETWORK)
    paced.run_until_known()
    assert read_produced(paced.connect().ask(produce({(TOPIC, 1): batch()})))[TOPIC, 1].error == 0


def test_more_that_wait_than_have_their_turn_in_a_pass_do_not_wait_for_others(pieces: Pieces) -> None:
    """Those that had it need not be about producers any more: then nobody wakes the process for the rest."""
    maintenance, unread = pieces.network.maintenance, pieces.network.clients.unread
    for _ in range(CONTINUED_PER_PASS + 2):
        pieces.connect()
    pieces.settle()
    unread.next_described.update(dict.fromkeys(list(unread.connections())))
    now_ms = monotonic_ms()
    maintenance.tick(now_ms)
    assert len(unread.next_described) == 2
    assert maintenance.next_deadline_ms(now_ms) == now_ms
