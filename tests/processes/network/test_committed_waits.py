"""Long polls with read_committed: woken when a transaction ends, and not by what comes behind an open one."""

from collections.abc import Callable
from struct import Struct
from typing import Any

import pytest

from kafkad.core.controller.deltas import snapshot
from kafkad.core.types import HIGH_WATERMARK, TXN_COMMITTED
from tests.handlers.kio_calls import KioApi
from tests.processes.pieces import NETWORK, TOPIC, WORKER, Client, Pieces
from tests.tools.raw_requests import batch, framed, text

LONG_MS = 60_000
FETCH_HEAD = Struct(">iiiib")
PRODUCE, FETCH, MARKERS = 0, 1, 27
FENCED = 52
"""TRANSACTION_COORDINATOR_FENCED."""


@pytest.fixture
def pieces(make_pieces: Callable[..., Pieces]) -> Pieces:
    """Nobody is asked about transactions: there is no coordinator in these pieces."""
    return make_pieces(transaction_partition_verification_enable="false")


def fetch(offset: int, *, committed: bool, max_wait_ms: int = LONG_MS) -> bytes:
    """Fetch 4 of one partition."""
    head = FETCH_HEAD.pack(-1, max_wait_ms, 1, 1 << 20, committed)
    row = Struct(">iiqi").pack(1, 0, offset, 1 << 20)
    return framed(FETCH, 4, head + Struct(">i").pack(1) + text(TOPIC) + row)


def fetched(body: bytes) -> Any:
    """The only partition of a reply."""
    (topic,) = KioApi("fetch", 4).read(body).responses
    return topic.partitions[0]


def in_transaction(client: Client, sequence: int, *, producer: int = 7) -> None:
    """Produce 7 of one batch under a transactional id."""
    records = batch(producer_id=producer, producer_epoch=0, base_sequence=sequence, is_transactional=True)
    limits = Struct(">hi").pack(1, 30_000)
    rows = Struct(">i").pack(1) + text(TOPIC) + Struct(">iii").pack(1, 0, len(records)) + records
    client.ask(framed(PRODUCE, 7, text("id") + limits + rows))


def plain(client: Client) -> None:
    records = batch()
    rows = Struct(">i").pack(1) + text(TOPIC) + Struct(">iii").pack(1, 0, len(records)) + records
    client.ask(framed(PRODUCE, 7, b"\xff\xff" + Struct(">hi").pack(1, 30_000) + rows))


def end_all(client: Client, outcomes: dict[int, bool], coordinator_epoch: int = 0) -> dict[int, int]:
    """WriteTxnMarkers 1 of these producers, and whether each commits; the error codes."""
    api = KioApi("write_txn_markers", 1)
    markers = tuple(
        api.part(
            "WritableTxnMarker",
            producer_id=producer,
            producer_epoch=0,
            transaction_result=commits,
            topics=(api.part("WritableTxnMarkerTopic", name=TOPIC, partition_indexes=(0,)),),
            coordinator_epoch=coordinator_epoch,
        )
        for producer, commits in outcomes.items()
    )
    body = client.ask(framed(MARKERS, 1, b"\x00" + bytes(api.request(markers=markers))))
    return {row.producer_id: row.topics[0].partitions[0].error_code.value for row in api.read(body[1:]).markers}


def end(client: Client, *, commits: bool, producer: int = 7) -> int:
    return end_all(client, {producer: commits})[producer]


def watchers(pieces: Pieces, count: int = 1) -> list[tuple[int, int, int]]:
    """Who waits for the partition, when so many do."""
    owned = pieces.worker.partitions.by_slot[pieces.slot()]
    pieces.run(lambda: len(owned.watchers) == count, f"{count} are waiting")
    return owned.watchers


def send_metadata_again(pieces: Pieces) -> None:
    """As a controller that was replaced does; whoever waits looks again."""
    before = pieces.network.copy.image
    pieces.send(snapshot(pieces.image), to=(NETWORK,))
    pieces.run(lambda: pieces.network.copy.image is not before, "the metadata has come again")
    pieces.settle()


@pytest.mark.parametrize("commits", [True, False])
def test_the_end_of_a_transaction_wakes_who_waits_for_it(pieces: Pieces, commits: bool) -> None:
    reader, writer = pieces.connect(), pieces.connect()
    in_transaction(writer, 0)
    reader.send(fetch(0, committed=True))
    pieces.settle()
    assert reader.replies == []
    assert end(writer, commits=commits) == 0
    answer = fetched(reader.reply())
    assert (answer.high_watermark, answer.last_stable_offset) == (2, 2)
    aborted = [(int(row.producer_id), row.first_offset) for row in answer.aborted_transactions]
    assert aborted == ([] if commits else [(7, 0)])
    assert answer.records


def test_appends_behind_an_open_transaction_wake_nobody_with_read_committed(pieces: Pieces) -> None:
    reader, writer = pieces.connect(), pieces.connect()
    in_transaction(writer, 0)
    reader.send(fetch(0, committed=True))
    (watcher,) = watchers(pieces)
    assert watcher == (0, 0, TXN_COMMITTED)
    for _ in range(20):
        plain(writer)
        pieces.settle()
        assert watchers(pieces)[0] is watcher, "it was told that something moved"
    assert reader.replies == []
    end(writer, commits=True)
    assert fetched(reader.reply()).last_stable_offset == 22


def test_both_kinds_of_readers_of_a_partition_hear_what_they_wait_for(pieces: Pieces) -> None:
    committed, everything, writer = pieces.connect(), pieces.connect(), pieces.connect()
    in_transaction(writer, 0)
    committed.send(fetch(0, committed=True))
    everything.send(fetch(1, committed=False))
    assert sorted(watchers(pieces, 2)) == [(0, 0, TXN_COMMITTED), (0, 1, HIGH_WATERMARK)]
    plain(writer)
    answer = fetched(everything.reply())
    assert (answer.high_watermark, answer.last_stable_offset, answer.aborted_transactions) == (2, 0, None)
    assert committed.replies == []
    end(writer, commits=True)
    assert fetched(committed.reply()).last_stable_offset == 3


def test_metadata_that_comes_again_leaves_one_watch_of_each_kind_at_the_owner(pieces: Pieces) -> None:
    """Each change of a partition that nobody writes to would cost its owner another one, for as long as it is quiet."""
    committed, everything, writer = pieces.connect(), pieces.connect(), pieces.connect()
    in_transaction(writer, 0)
    committed.send(fetch(0, committed=True))
    everything.send(fetch(1, committed=False))
    watchers(pieces, 2)
    for _ in range(3):
        send_metadata_again(pieces)
    owned = pieces.worker.partitions.by_slot[pieces.slot()]
    assert sorted(owned.watchers) == [(0, 0, TXN_COMMITTED), (0, 1, HIGH_WATERMARK)]
    assert end(writer, commits=True) == 0
    assert fetched(committed.reply()).last_stable_offset == 2
    assert fetched(everything.reply()).high_watermark == 2


@pytest.mark.parametrize("order", [(NETWORK, WORKER), (WORKER, NETWORK)])
def test_an_end_between_look_and_watch_is_noticed(pieces: Pieces, order: tuple[object, ...]) -> None:
    reader, writer, ender = pieces.connect(), pieces.connect(), pieces.connect()
    for round_number in range(30):
        in_transaction(writer, round_number)
        reader.send(fetch(2 * round_number, committed=True))
        for key in order * (1 + round_number % 3):
            pieces.turn(key)  # type: ignore[arg-type]
        assert end(ender, commits=round_number % 2 == 0) == 0
        assert fetched(reader.reply()).last_stable_offset == 2 * round_number + 2


def test_one_request_ends_several_transactions(pieces: Pieces) -> None:
    reader, writer = pieces.connect(), pieces.connect()
    for producer in (7, 8):
        in_transaction(writer, 0, producer=producer)
    assert end_all(writer, {8: True}, coordinator_epoch=3) == {8: 0}
    assert end_all(writer, {7: False, 8: True, 9: False}) == {7: 0, 8: FENCED, 9: 0}
    answer = fetched(reader.ask(fetch(0, committed=True)))
    assert [(int(row.producer_id), row.first_offset) for row in answer.aborted_transactions] == [(7, 0)]
    assert answer.last_stable_offset == 5


def test_a_new_worker_knows_what_is_open_and_what_was_aborted(pieces: Pieces) -> None:
    reader, writer = pieces.connect(), pieces.connect()
    in_transaction(writer, 0)
    end(writer, commits=False)
    in_transaction(writer, 0, producer=8)
    pieces.kill(WORKER)
    pieces.tell_roster()
    pieces.settle()
    pieces.begin(WORKER)
    pieces.run_until_online()
    pieces.settle()
    answer = fetched(reader.ask(fetch(0, committed=True)))
    assert (answer.high_watermark, answer.last_stable_offset) == (3, 2)
    assert [(int(row.producer_id), row.first_offset) for row in answer.aborted_transactions] == [(7, 0)]
    reader.send(fetch(2, committed=True))
    pieces.settle()
    assert end(writer, commits=False, producer=8) == 0
    answer = fetched(reader.reply())
    assert [(int(row.producer_id), row.first_offset) for row in answer.aborted_transactions] == [(8, 2)]
