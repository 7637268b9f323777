"""What a worker makes of its own deaths and those of others: the log is the truth, and nothing is lowered silently."""

import functools
import logging
import os
import socket
from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest

from bench.brokers.processes import WITHIN_S
from kafkad.adapters.shared_memory.controller_handover import ControllerHandover
from kafkad.core.controller.deltas import TopicConfigChanged
from kafkad.core.partition_slot import STATE_FREE, STATE_OFFLINE, STATE_ONLINE
from tests.processes.pieces import NETWORK, TOPIC, WORKER, Client, Pieces
from tests.tools.raw_requests import batch, fetch, produce, read_fetched, read_produced

NOT_LEADER, TIMED_OUT, TOO_LARGE, STORAGE_ERROR = 6, 7, 10, 56


def _produced(client: Client, partition: int = 0, records: bytes = b"") -> tuple[int, int]:
    return read_produced(client.ask(produce({(TOPIC, partition): records or batch()})))[TOPIC, partition]


def _log_file(pieces: Pieces) -> Path:
    (file,) = pieces.directory().glob("*.log")
    return file


def test_next_life_goes_on_where_the_log_ends(pieces: Pieces) -> None:
    client = pieces.connect()
    assert _produced(client) == (0, 0)
    pieces.replace(WORKER)
    pieces.run_until_online()
    assert _produced(client) == (0, 1)
    assert len(read_fetched(client.ask(fetch({(TOPIC, 0): 0})))[TOPIC, 0].records) == 2 * len(batch())


def test_what_was_written_and_not_published_is_part_of_the_log(pieces: Pieces) -> None:
    """The worker died between the write and the publication: the client was told to retry, the record is there."""
    client = pieces.connect()
    client.send(produce({(TOPIC, 0): batch()}))
    pieces.turn(NETWORK)
    pieces.turn(NETWORK)
    pieces.worker.loop.run_once(0)
    assert (pieces.published().leo_offset, _log_file(pieces).stat().st_size) == (0, len(batch()))
    pieces.replace(WORKER)
    assert read_produced(client.reply())[TOPIC, 0].error == TIMED_OUT
    pieces.run_until_online()
    assert _produced(client) == (0, 1)


def test_retry_of_an_idempotent_producer_is_not_written_twice(pieces: Pieces) -> None:
    client = pieces.connect()
    records = batch(producer_id=7, producer_epoch=0, base_sequence=0)
    client.send(produce({(TOPIC, 0): records}))
    pieces.turn(NETWORK)
    pieces.turn(NETWORK)
    pieces.worker.loop.run_once(0)
    pieces.replace(WORKER)
    assert read_produced(client.reply())[TOPIC, 0].error == TIMED_OUT
    pieces.run_until_online()
    assert _produced(client, records=records) == (0, 0)
    assert pieces.published().leo_offset == 1


def test_configs_that_somebody_else_has_stored_stop_no_worker(pieces: Pieces, caplog: pytest.LogCaptureFixture) -> None:
    """They say so in one line; a log that runs keeps the settings that it has while others can't be read."""
    caplog.set_level(logging.ERROR)
    client = pieces.connect()
    pieces.publish(TopicConfigChanged(TOPIC, {"max.message.bytes": "1"}))
    pieces.run_until_known()
    pieces.settle()
    for _ in range(2):
        pieces.publish(TopicConfigChanged(TOPIC, {"nonsense": "x", "max.message.bytes": "many"}))
        pieces.run_until_known()
        pieces.settle()
    assert _produced(client)[0] == TOO_LARGE
    pieces.replace(WORKER)
    pieces.run_until_online()
    assert _produced(client) == (0, 0)
    lines = [record.getMessage() for record in caplog.records if "ignoring configs" in record.getMessage()]
    assert len(lines) == 2, "one in each life of the worker"
    assert "nonsense" in lines[0] and "max.message.bytes: Invalid value many" in lines[0]


def test_next_life_frees_the_slots_of_topics_that_were_deleted_between_both(pieces: Pieces) -> None:
    """Otherwise they are never free: no other process writes to the slots of a worker."""
    slots = [pieces.slot(), pieces.slot(partition=1)]
    ControllerHandover(pieces.table).keep(max(slots) + 1, frozenset())
    pieces.kill(WORKER)
    pieces.delete_topic(TOPIC, to=())
    pieces.begin(WORKER)
    pieces.run(lambda: all(pieces.table.read(slot).state == STATE_FREE for slot in slots), "both slots are free")


def test_torn_tail_of_a_killed_writer_is_cut_off(pieces: Pieces) -> None:
    client = pieces.connect()
    _produced(client)
    pieces.kill(WORKER)
    with open(_log_file(pieces), "ab") as file:
        file.write(batch()[:40])
    pieces.begin(WORKER)
    pieces.run_until_online()
    assert _produced(client) == (0, 1)


def test_log_that_is_shorter_than_what_was_readable_is_given_up_loudly(
    pieces: Pieces, caplog: pytest.LogCaptureFixture
) -> None:
    client = pieces.connect()
    for _ in range(3):
        _produced(client)
    pieces.kill(WORKER)
    with open(_log_file(pieces), "r+b") as file:
        file.truncate(len(batch()))
    pieces.begin(WORKER)
    pieces.run(lambda: pieces.published().state == STATE_OFFLINE, "the partition is given up")
    assert "stays offline: its log ends at offset 1, below its published high watermark 3" in caplog.text
    assert pieces.published().hw_offset == 3
    assert _produced(client)[0] in (NOT_LEADER, STORAGE_ERROR)
    assert read_fetched(client.ask(fetch({(TOPIC, 0): 0})))[TOPIC, 0].error == STORAGE_ERROR
    assert _produced(client, 1) == (0, 0)


def test_requests_of_a_dead_network_process_reach_no_log(pieces: Pieces) -> None:
    client = pieces.connect()
    client.send(produce({(TOPIC, 0): batch()}))
    pieces.turn(NETWORK)
    pieces.turn(NETWORK)
    pieces.kill(NETWORK)
    pieces.tell_roster()
    pieces.turn(WORKER)
    pieces.begin(NETWORK)
    pieces.run_until_known()
    pieces.settle()
    assert pieces.published().leo_offset in (0, 1)
    end = pieces.published().leo_offset
    assert _produced(pieces.connect()) == (0, end)
    assert pieces.has_empty_arena()


def test_network_process_lets_nobody_in_before_the_worker_has_let_go_of_its_predecessor(pieces: Pieces) -> None:
    client = pieces.connect()
    client.send(produce({(TOPIC, 0): batch()}))
    pieces.turn(NETWORK)
    pieces.replace(NETWORK)
    with socket.create_connection(("127.0.0.1", pieces.port)):
        pieces.run_until_known(NETWORK)
        assert len(pieces.network.clients) == 0
        pieces.run(lambda: len(pieces.network.clients) == 1, "the worker has seen the new life")


def test_topic_that_is_deleted_before_its_partitions_were_loaded(pieces: Pieces) -> None:
    pieces.create_topic("brief", 50)
    slots = [row.slot for row in pieces.image.topics["brief"].partitions]
    pieces.delete_topic("brief")
    pieces.run_until_known()
    pieces.run(lambda: all(_is_free(pieces, slot) for slot in slots), "the slots are free")
    # What was loaded meanwhile is renamed, and goes after file.delete.delay.ms.
    directories = [path.name for path in pieces.directory().parent.glob("brief-*")]
    assert [name for name in directories if not name.endswith("-delete")] == []
    assert _produced(pieces.connect()) == (0, 0)


def _is_free(pieces: Pieces, slot: int) -> bool:
    return pieces.table.read(slot).topic_id == bytes(16)


def test_slots_of_a_deleted_topic_do_not_wait_for_the_files_of_one_that_was_deleted_before(
    make_pieces: Callable[..., Pieces],
) -> None:
    pieces = make_pieces(log_segment_delete_delay_ms="3600000")
    for name in ("first", "second"):
        pieces.create_topic(name)
        pieces.run_until_online(name)
        slot = pieces.slot(name)
        pieces.delete_topic(name)
        pieces.run(functools.partial(_is_free, pieces, slot), f"the slot of {name} is free")
    assert len(list(pieces.directory().parent.glob("*-delete"))) == 2


def test_others_produce_while_the_file_system_takes_its_time_to_remove_a_deleted_topic(
    make_pieces: Callable[..., Pieces], monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces = make_pieces(log_segment_delete_delay_ms="0")
    pieces.create_topic("large", 40)
    pieces.run_until_online("large")
    data = pieces.directory("large").parent
    unlink, begun, may_go = os.unlink, Event(), Event()

    def slow(path: str) -> None:
        begun.set()
        assert may_go.wait(WITHIN_S), "nobody else was served"
        unlink(path)

    monkeypatch.setattr(os, "unlink", slow)
    pieces.delete_topic("large")
    pieces.run(begun.is_set, "a file is being removed")
    assert _produced(pieces.connect()) == (0, 0)
    pieces.run(lambda: pieces.worker.partitions.removal_due_ms is None, "no pass has anything left to do")
    assert len(list(data.glob("large*"))) == 40
    may_go.set()
    pieces.run(lambda: not list(data.glob("large*")), "the files are gone")


def test_log_directory_that_is_gone_costs_the_new_partition_and_nothing_else(
    pieces: Pieces, caplog: pytest.LogCaptureFixture
) -> None:
    data = pieces.directory().parent
    data.rename(data.with_name("moved"))
    pieces.create_topic("late")
    slot = pieces.slot("late")
    pieces.run(lambda: pieces.table.read(slot).state == STATE_OFFLINE, "the partition is given up")
    assert any(record.levelno >= logging.ERROR and "late-0" in record.getMessage() for record in caplog.records)
    assert pieces.published().state == STATE_ONLINE
    data.with_name("moved").rename(data)


def test_delayed_answer_for_a_dead_network_process_is_dropped(pieces: Pieces) -> None:
    """Its successor numbers its requests anew, and would take it for an answer to its own."""
    worker = pieces.worker
    client = pieces.connect()
    worker.partitions.by_slot[pieces.slot()].in_sync = 2
    client.send(produce({(TOPIC, 0): batch()}, acks=-1))
    pieces.settle()
    assert worker.appender.has_waiting
    pieces.replace(NETWORK)
    next_client = pieces.connect()
    worker.partitions.by_slot[pieces.slot()].in_sync = 1
    assert _produced(next_client) == (0, 1)
    assert not worker.appender.has_waiting
