"""Long polls: woken by what moves and by nothing else, whoever dies, moves or is deleted meanwhile."""

import struct
import time

import pytest

from bench.brokers.processes import WITHIN_S
from kafkad.core.errors import ErrorCode
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.partition_slot import STATE_RECOVERING
from kafkad.processes.network.fetch_requests import CHECKS_PER_PASS, MANIFEST_TIMEOUT_MS
from kafkad.processes.worker.owned import OwnedPartition
from tests.processes.pieces import NETWORK, TOPIC, WORKER, Client, Pieces
from tests.tools.raw_requests import (
    FETCH,
    api_versions,
    batch,
    fetch,
    framed,
    list_offsets,
    produce,
    read_fetched,
    read_produced,
)

LONG_MS = 60_000
MANY = 400
UNKNOWN_TOPIC, OUT_OF_RANGE, NOT_LEADER = 3, 1, 6


def _write(pieces: Pieces, client: Client, partition: int = 0, records: bytes = b"", topic: str = TOPIC) -> None:
    body = client.ask(produce({(topic, partition): records or batch()}))
    assert read_produced(body)[topic, partition].error == 0


def _log(pieces: Pieces) -> PartitionLog:
    partition_log = pieces.worker.partitions.by_slot[pieces.slot()].log
    assert partition_log is not None
    return partition_log


@pytest.mark.parametrize("order", [(NETWORK, WORKER), (WORKER, NETWORK)])
def test_produce_between_look_and_watch_is_noticed(pieces: Pieces, order: tuple[object, ...]) -> None:
    """The race of long polls, at its two orders of passes, for a hundred rounds."""
    reader, writer = pieces.connect(), pieces.connect()
    for round_number in range(100):
        reader.send(fetch({(TOPIC, 0): round_number}, max_wait_ms=LONG_MS))
        writer.send(produce({(TOPIC, 0): batch()}))
        for key in order * (1 + round_number % 3):
            pieces.turn(key)  # type: ignore[arg-type]
        body = reader.reply()
        assert read_fetched(body)[TOPIC, 0].high_watermark == round_number + 1
        writer.reply()


def test_one_append_that_wakes_many_gives_others_their_turn(pieces: Pieces) -> None:
    readers = [pieces.connect() for _ in range(3 * CHECKS_PER_PASS)]
    writer, other = pieces.connect(), pieces.connect()
    for reader in readers:
        reader.send(fetch({(TOPIC, 0): 0}, max_wait_ms=LONG_MS))
    pieces.run(lambda: len(pieces.network.request_handlers.fetch) == len(readers), "all of them wait")
    writer.send(produce({(TOPIC, 0): batch()}))
    pieces.run(lambda: pieces.network.request_handlers.fetch.is_busy, "the first are answered")
    assert len(pieces.network.request_handlers.fetch) == 2 * CHECKS_PER_PASS
    assert pieces.network.timeout_ms() == 0
    assert other.ask(api_versions())
    for reader in readers:
        assert read_fetched(reader.reply())[TOPIC, 0].records


def test_waiting_fetch_outlives_its_worker_and_hears_of_the_next(pieces: Pieces) -> None:
    reader, writer = pieces.connect(), pieces.connect()
    reader.send(fetch({(TOPIC, 0): 0}, max_wait_ms=LONG_MS))
    pieces.settle()
    pieces.kill(WORKER)
    pieces.tell_roster()
    pieces.settle()
    pieces.begin(WORKER)
    pieces.run_until_online()
    pieces.settle()
    assert reader.replies == []
    _write(pieces, writer)
    assert read_fetched(reader.reply())[TOPIC, 0].records


def test_watch_at_a_worker_that_still_loads_turns_no_circles(pieces: Pieces) -> None:
    """Every answer "look again" would bring the next question at once: both would be busy until it has loaded."""
    reader = pieces.connect()
    reader.send(fetch({(TOPIC, 0): 0}, max_wait_ms=LONG_MS))
    pieces.settle()
    pieces.replace(WORKER)
    for _ in range(10):
        pieces.turn(NETWORK)
        pieces.turn(WORKER)
    # The controller has said nothing yet, so that nothing is loaded.
    assert pieces.published().state != STATE_RECOVERING
    assert sum(map(len, pieces.network.request_handlers.fetch.outgoing)) == 0
    assert len(pieces.worker._postponed) == 1
    pieces.run_until_online()
    writer = pieces.connect()
    _write(pieces, writer)
    assert read_fetched(reader.reply())[TOPIC, 0].records


def _many(pieces: Pieces) -> int:
    """A topic that takes several passes to load; the slot of its last partition, which has an old segment."""
    client = pieces.connect()
    pieces.create_topic("many", MANY)
    pieces.run_until_online("many")
    pieces.run_until_known()
    slot = pieces.slot("many", MANY - 1)
    for end in (1, 2):
        _write(pieces, client, MANY - 1, topic="many")
        partition_log = pieces.worker.partitions.by_slot[slot].log
        assert partition_log is not None
        partition_log.roll(end, 0)
    pieces.settle()
    return slot


def _worker_that_still_loads(pieces: Pieces, slot: int) -> OwnedPartition:
    pieces.replace(WORKER)
    by_slot = pieces.worker.partitions.by_slot
    pieces.run_until_known(WORKER)
    owned = by_slot[slot]
    assert owned.is_recovering, "one pass was enough for all of them: MANY is too small"
    return owned


def test_watch_of_a_partition_that_is_being_loaded_is_kept(pieces: Pieces) -> None:
    slot = _many(pieces)
    reader = pieces.connect()
    reader.send(fetch({("many", MANY - 1): 2}, max_wait_ms=LONG_MS))
    pieces.settle()
    owned = _worker_that_still_loads(pieces, slot)
    pieces.turn(NETWORK)
    pieces.worker.loop.run_once(0)
    assert (owned.is_recovering, owned.watchers) == (True, [(0, 2, False)])
    pieces.run_until_online("many")
    _write(pieces, pieces.connect(), MANY - 1, topic="many")
    assert read_fetched(reader.reply())["many", MANY - 1].records


def test_manifest_of_a_partition_that_is_being_loaded_is_waited_for(pieces: Pieces) -> None:
    slot = _many(pieces)
    reader = pieces.connect()
    owned = _worker_that_still_loads(pieces, slot)
    reader.send(fetch({("many", MANY - 1): 0}, max_wait_ms=LONG_MS))
    pieces.turn(NETWORK)
    pieces.worker.loop.run_once(0)
    assert (owned.is_recovering, len(owned.waiting_requests)) == (True, 1)
    assert read_fetched(reader.reply())["many", MANY - 1].records


def test_fetch_outlives_the_worker_that_was_asked_for_the_manifest(pieces: Pieces) -> None:
    _many(pieces)
    reader = pieces.connect()
    reader.send(fetch({("many", MANY - 1): 0}, max_wait_ms=LONG_MS))
    pieces.turn(NETWORK)
    pieces.kill(WORKER)
    pieces.tell_roster()
    pieces.turn(NETWORK)
    pieces.begin(WORKER)
    assert read_fetched(reader.reply())["many", MANY - 1].records


def test_look_up_by_time_outlives_the_worker_that_was_asked_for_the_manifest(pieces: Pieces) -> None:
    writer, reader = pieces.connect(), pieces.connect()
    _write(pieces, writer)
    reader.send(list_offsets(TOPIC, 0, 0))
    pieces.turn(NETWORK)
    pieces.kill(WORKER)
    pieces.tell_roster()
    pieces.settle()
    assert reader.replies == []
    pieces.begin(WORKER)
    body = reader.reply()
    assert struct.unpack_from(">h", body, 4 + 2 + 1 + 4 + 4)[0] in (0, 6)


def test_fetch_of_a_deleted_topic_is_answered_at_once(pieces: Pieces) -> None:
    reader = pieces.connect()
    reader.send(fetch({(TOPIC, 0): 0}, max_wait_ms=LONG_MS))
    pieces.settle()
    pieces.delete_topic(TOPIC)
    # Whichever is heard of first: that the topic is deleted, or that its owner let go of it.
    assert read_fetched(reader.reply())[TOPIC, 0].error in (UNKNOWN_TOPIC, NOT_LEADER)
    assert len(pieces.network.request_handlers.fetch) == 0


def test_manifest_that_crosses_the_deletion_of_its_topic_is_dropped(pieces: Pieces) -> None:
    writer, reader = pieces.connect(), pieces.connect()
    _write(pieces, writer)
    reader.send(list_offsets(TOPIC, 0, 0))
    pieces.turn(NETWORK)
    pieces.delete_topic(TOPIC, to=(NETWORK,))
    pieces.run_until_known(NETWORK)
    pieces.turn(WORKER)
    pieces.settle()
    assert struct.unpack_from(">h", reader.reply(), 4 + 2 + 1 + 4 + 4)[0] == UNKNOWN_TOPIC


def test_files_of_a_deleted_topic_are_not_kept_open(pieces: Pieces) -> None:
    client = pieces.connect()
    _write(pieces, client)
    assert read_fetched(client.ask(fetch({(TOPIC, 0): 0})))[TOPIC, 0].records
    files = pieces.network.logs._files
    assert files.open_count > 0
    pieces.delete_topic(TOPIC)
    pieces.run(lambda: files.open_count == 0, "the files are closed")


def test_fetch_that_times_out_after_its_segment_is_gone_is_answered(pieces: Pieces) -> None:
    """It measured an old segment, and someone else's fetch has renewed the reader since."""
    client, other = pieces.connect(), pieces.connect()
    _write(pieces, client)
    _log(pieces).roll(1, 0)
    _write(pieces, client)
    client.send(fetch({(TOPIC, 0): 0}, max_wait_ms=300, min_bytes=1 << 20))
    pieces.settle()
    assert client.replies == []
    _log(pieces).roll(2, 0)
    _write(pieces, other)
    other.ask(fetch({(TOPIC, 0): 2}))
    assert read_fetched(client.reply())[TOPIC, 0].error == 0


def test_stop_answers_every_long_poll_and_ends(pieces: Pieces) -> None:
    client = pieces.connect()
    client.send(fetch({(TOPIC, 0): 0}, max_wait_ms=LONG_MS))
    pieces.settle()
    pieces.stop(NETWORK, deadline_ms=pieces.network._now_ms + LONG_MS)
    assert client.reply()
    pieces.run(lambda: pieces.network.is_done, "the network process is done long before its deadline")


def test_stop_before_anything_was_accepted_is_a_stop(pieces: Pieces) -> None:
    pieces.kill(WORKER)
    pieces.replace(NETWORK)
    pieces.stop(NETWORK, deadline_ms=pieces.network._now_ms + LONG_MS)
    pieces.run(lambda: pieces.network.is_done, "the network process is done")


def test_acks_0_in_flight_is_written_before_a_stop_ends(pieces: Pieces) -> None:
    client = pieces.connect()
    client.send(produce({(TOPIC, 0): batch()}, acks=0))
    pieces.turn(NETWORK)
    pieces.turn(NETWORK)
    pieces.stop(NETWORK, deadline_ms=pieces.network._now_ms + LONG_MS)
    for _ in range(3):
        pieces.turn(NETWORK)
    assert not pieces.network.is_done
    pieces.run(lambda: pieces.network.is_done, "the network process is done")
    assert pieces.published().leo_offset == 1


def test_dropped_connection_leaves_no_interest_behind(pieces: Pieces) -> None:
    client = pieces.connect()
    client.send(fetch({(TOPIC, 0): 0, (TOPIC, 1): 0}, max_wait_ms=LONG_MS) + b"\x00")
    pieces.settle()
    handler = pieces.network.request_handlers.fetch
    assert len(handler) == 1
    pieces.network.clients.close_all()
    assert (len(handler), handler.watches.interested) == (0, {})


def _session_fetch(session: int, epoch: int, partitions: list[tuple[str, int]], *, max_wait_ms: int = 0) -> bytes:
    """Fetch 7: each partition from offset 0."""
    body = struct.pack(">iiiibii", -1, max_wait_ms, 1, 1 << 20, 0, session, epoch) + struct.pack(">i", len(partitions))
    for topic, partition in partitions:
        body += struct.pack(">h", len(topic)) + topic.encode() + struct.pack(">iiqqi", 1, partition, 0, 0, 1 << 20)
    return framed(FETCH, 7, body + struct.pack(">i", 0))


ABSENT = ("unknown", 0)


def test_what_does_not_exist_waits_with_the_rest(pieces: Pieces) -> None:
    """As in Apache Kafka: only what is found in reading is told at once."""
    client, writer = pieces.connect(), pieces.connect()
    client.send(fetch({(TOPIC, 0): 0, ABSENT: 0}, max_wait_ms=LONG_MS))
    pieces.settle()
    assert client.replies == []
    _write(pieces, writer, 1)
    pieces.settle()
    assert client.replies == []
    _write(pieces, writer)
    found = read_fetched(client.reply())
    assert found[TOPIC, 0].records and found[ABSENT].error == UNKNOWN_TOPIC


def test_what_does_not_exist_is_told_when_the_time_is_over(pieces: Pieces) -> None:
    client = pieces.connect()
    client.send(fetch({(TOPIC, 0): 0, ABSENT: 0}, max_wait_ms=100))
    found = read_fetched(client.reply())
    assert (found[TOPIC, 0].error, found[ABSENT].error) == (0, UNKNOWN_TOPIC)


def test_where_nothing_exists_there_is_nothing_to_wait_for(pieces: Pieces) -> None:
    body = pieces.connect().ask(fetch({ABSENT: 0, (TOPIC, 99): 0}, max_wait_ms=LONG_MS))
    assert {row.error for row in read_fetched(body).values()} == {UNKNOWN_TOPIC}


def test_what_does_not_exist_waits_in_each_fetch_of_a_session(pieces: Pieces) -> None:
    client, writer = pieces.connect(), pieces.connect()
    _, error, session = struct.unpack_from(">ihi", client.ask(_session_fetch(0, 0, [(TOPIC, 0), ABSENT])))
    assert error == 0 and session != 0
    client.send(_session_fetch(session, 1, [], max_wait_ms=100))
    assert b"unknown" in client.reply()
    client.send(_session_fetch(session, 2, [], max_wait_ms=LONG_MS))
    pieces.settle()
    assert client.replies == []
    _write(pieces, writer)
    body = client.reply()
    assert b"unknown" in body and struct.pack(">h", len(TOPIC)) + TOPIC.encode() in body


def test_what_is_deleted_meanwhile_is_told_at_once_beside_what_never_was(pieces: Pieces) -> None:
    pieces.create_topic("short", 1)
    pieces.run_until_online()
    client = pieces.connect()
    client.send(fetch({(TOPIC, 0): 0, ("short", 0): 0, ABSENT: 0}, max_wait_ms=LONG_MS))
    pieces.settle()
    assert client.replies == []
    pieces.delete_topic("short")
    found = read_fetched(client.reply())
    assert found["short", 0].error in (UNKNOWN_TOPIC, NOT_LEADER)
    assert (found[TOPIC, 0].error, found[ABSENT].error) == (0, UNKNOWN_TOPIC)


def test_session_is_told_of_a_topic_that_was_deleted_and_made_again(pieces: Pieces) -> None:
    client = pieces.connect()
    _, error, session = struct.unpack_from(">ihi", client.ask(_session_fetch(0, 0, [(TOPIC, 0)])))
    assert error == 0 and session != 0
    old_slot = pieces.slot()
    pieces.delete_topic(TOPIC)
    pieces.run_until_known()
    assert old_slot not in pieces.network.request_handlers.fetch.watches.interested
    pieces.create_topic(TOPIC, 1)
    pieces.run_until_online()
    pieces.run_until_known()
    other = pieces.connect()
    _write(pieces, other)
    body = client.ask(_session_fetch(session, 1, [], max_wait_ms=LONG_MS))
    assert b"\x00\x01t" in body


@pytest.mark.parametrize("offset", [-2, 5])
def test_offset_outside_the_log_is_answered_at_once(pieces: Pieces, offset: int) -> None:
    client = pieces.connect()
    _write(pieces, client)
    body = client.ask(fetch({(TOPIC, 0): offset}, max_wait_ms=LONG_MS))
    assert read_fetched(body)[TOPIC, 0].error == OUT_OF_RANGE


def test_log_with_a_damaged_batch_costs_nobody_the_process(pieces: Pieces, caplog: pytest.LogCaptureFixture) -> None:
    client = pieces.connect()
    for _ in range(3):
        _write(pieces, client)
    file = next(pieces.directory().glob("*.log"))
    content = bytearray(file.read_bytes())
    content[len(content) // 3 + 8 : len(content) // 3 + 12] = b"\xff\xff\xff\xff"
    file.write_bytes(content)
    for _ in range(2):
        assert read_fetched(client.ask(fetch({(TOPIC, 0): 2})))[TOPIC, 0].error == ErrorCode.CORRUPT_MESSAGE
    body = client.ask(list_offsets(TOPIC, 0, 2**40))
    assert body[-18:-16] == ErrorCode.CORRUPT_MESSAGE.to_bytes(2, "big")
    log_rate_limit = [record.getMessage() for record in caplog.records if "can't read" in record.getMessage()]
    assert len(log_rate_limit) == 1 and str(pieces.directory()) in log_rate_limit[0]
    _write(pieces, client, 1)


def _with_old_segment(pieces: Pieces, client: Client, partition: int) -> None:
    """A record in a segment that is no longer the newest, and one in the newest."""
    _write(pieces, client, partition)
    owned = pieces.worker.partitions.by_slot[pieces.slot(partition=partition)]
    assert owned.log is not None
    owned.log.roll(owned.log.log_end_offset, 0)
    pieces.worker.outbox.touched(owned)
    _write(pieces, client, partition)


def test_old_records_are_sent_at_once_also_to_who_does_not_wait(pieces: Pieces) -> None:
    """Where they are is asked of the owner first: an empty reply would say that there are none."""
    client = pieces.connect()
    for partition in (0, 1):
        _with_old_segment(pieces, client, partition)
    wanted = {(TOPIC, 0): 0, (TOPIC, 1): 0}
    # The first to be known is sent, and so at the latest the second time everything is there.
    for _ in range(2):
        found = read_fetched(client.ask(fetch(wanted, max_wait_ms=0)))
        sent = [key for key in wanted if found[key].records]
        assert sent
        for key in sent:
            del wanted[key]
        if not wanted:
            break
    assert not wanted


def test_who_waits_for_more_than_the_old_records_waits_no_longer_than_it_said(pieces: Pieces) -> None:
    client = pieces.connect()
    _with_old_segment(pieces, client, 0)
    client.send(fetch({(TOPIC, 0): 0}, max_wait_ms=300, min_bytes=1 << 20))
    handler = pieces.network.request_handlers.fetch
    waiting_fetches = handler._waiting
    pieces.run(
        lambda: client.replies or any(each not in handler._waiting_for_manifest for each in waiting_fetches.values()),
        "it is known",
    )
    for waiting in handler._waiting.values():
        context = waiting.reply.context
        assert waiting.deadline_ms == context.deadline_ms(300) < context.deadline_ms(MANIFEST_TIMEOUT_MS)
    assert read_fetched(client.reply())[TOPIC, 0].records


@pytest.mark.parametrize("offset", [0, 9])
def test_fetch_with_something_to_say_does_not_wait_for_another_partitions_manifest(pieces: Pieces, offset: int) -> None:
    """Records enough, or an error: the owner that does not answer holds back its own partition alone."""
    client = pieces.connect()
    _with_old_segment(pieces, client, 0)
    _write(pieces, client, 1)
    client.send(fetch({(TOPIC, 0): 0, (TOPIC, 1): offset}, max_wait_ms=LONG_MS))
    pieces.turn(NETWORK)
    pieces.turn(NETWORK)
    client.pump()
    found = read_fetched(client.replies[0][1])
    assert found[TOPIC, 1].error == OUT_OF_RANGE if offset else found[TOPIC, 1].records
    assert not found[TOPIC, 0].records
    assert len(pieces.network.request_handlers.fetch) == 0


def test_owner_that_does_not_answer_is_not_waited_for_without_end(pieces: Pieces) -> None:
    client = pieces.connect()
    _with_old_segment(pieces, client, 0)
    client.send(fetch({(TOPIC, 0): 0}, max_wait_ms=0))
    began = time.monotonic()
    while not client.replies:
        assert time.monotonic() - began < WITHIN_S, "a reply comes"
        pieces.turn(NETWORK)
        client.pump()
    assert read_fetched(client.reply())[TOPIC, 0] == (0, 2, b"")
    assert time.monotonic() - began >= MANIFEST_TIMEOUT_MS / 1000 - 0.01
