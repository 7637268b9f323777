"""Shards in a worker: loaded with their logs, gone with them, and what they said is in the log."""

import logging
from collections.abc import Callable
from dataclasses import replace as replaced
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from msgspec.structs import replace

from kafkad.core.controller.deltas import PartitionsChanged
from kafkad.core.coordinator.partitioning import partition_for
from kafkad.core.errors import ErrorCode
from kafkad.core.log.records.batch import assign_offsets
from kafkad.core.log.records.record import NewRecord, build_batch
from kafkad.handlers.coordinators.requests.apis_of_coordinators import COORDINATED
from kafkad.processes.runtime.peer_log import EVENTS_A_MINUTE
from kafkad.processes.runtime.turns import Turns
from tests.processes.group_requests import (
    DESCRIBE,
    JOIN,
    OFFSETS,
    asked,
    commit,
    committed,
    committed_code,
    join,
    read,
    with_offsets_topic,
)
from tests.processes.pieces import NETWORK, WORKER, Client, Pieces


def test_the_next_life_reads_what_was_committed(pieces: Pieces) -> None:
    with_offsets_topic(pieces)
    client = pieces.connect()
    assert committed_code(client, "g", 7) == 0
    pieces.replace(WORKER)
    pieces.run_until_online(OFFSETS)
    pieces.settle()
    assert committed(client, "g") == (0, 7)


def test_what_was_written_and_not_answered_is_committed(pieces: Pieces) -> None:
    """The worker died between the write and the answer: the client commits again, or not; the offset is there."""
    with_offsets_topic(pieces)
    client = pieces.connect()
    client.send(commit("g", 7))
    pieces.turn(NETWORK)
    pieces.turn(NETWORK)
    pieces.worker.loop.run_once(0)
    pieces.replace(WORKER)
    client.reply()
    pieces.run_until_online(OFFSETS)
    pieces.settle()
    assert committed(client, "g") == (0, 7)


def test_while_a_shard_is_loaded_clients_come_again(pieces: Pieces, monkeypatch: pytest.MonkeyPatch) -> None:
    with_offsets_topic(pieces)
    client = pieces.connect()
    assert committed_code(client, "g", 7) == 0
    pieces.replace(WORKER)
    monkeypatch.setattr("kafkad.processes.worker.loop.STEP_S", 0.0)
    pieces.run_until_known()
    assert committed(client, "g")[0] == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    monkeypatch.undo()
    pieces.run_until_online(OFFSETS)
    pieces.settle()
    assert committed(client, "g") == (0, 7)


@pytest.mark.parametrize(("leader", "continues"), [(1, True), (2, False)])
def test_groups_go_on_while_their_broker_leads(
    make_pieces: Callable[..., Pieces], leader: int, continues: bool
) -> None:
    """A broker that dies costs every partition that it follows an epoch, and members of groups elsewhere nothing."""
    pieces = make_pieces(node_id="1", group_initial_rebalance_delay_ms="600000")
    with_offsets_topic(pieces)
    client, other = pieces.connect(), pieces.connect()
    client.send(join())
    pieces.run(lambda: len(pieces.network.request_handlers.coordinators) == 1, "the join waits")
    rows = pieces.image.topics[OFFSETS].partitions
    changed = tuple(replace(row, leader=leader, leader_epoch=3, partition_epoch=3) for row in rows)
    pieces.publish(PartitionsChanged(OFFSETS, changed))
    pieces.run_until_known()
    pieces.settle()
    if continues:
        assert committed_code(other, "another", 5) == 0
        assert len(pieces.network.request_handlers.coordinators) == 1, "the join waits on"
    else:
        assert int(read(JOIN, client.reply()).error_code) == ErrorCode.NOT_COORDINATOR


def test_a_deleted_internal_topic_sends_everybody_away(make_pieces: Callable[..., Pieces]) -> None:
    pieces = make_pieces(group_initial_rebalance_delay_ms="600000")
    with_offsets_topic(pieces)
    client, other = pieces.connect(), pieces.connect()
    client.send(join())
    pieces.run(lambda: len(pieces.network.request_handlers.coordinators) == 1, "the join waits")
    pieces.settle()
    pieces.delete_topic(OFFSETS)
    assert int(read(JOIN, client.reply()).error_code) == ErrorCode.NOT_COORDINATOR
    assert committed_code(other) == ErrorCode.NOT_COORDINATOR
    with_offsets_topic(pieces)
    assert committed(other, "g") == (0, -1)


def test_groups_of_a_failed_log_directory_are_not_served(pieces: Pieces) -> None:
    with_offsets_topic(pieces)
    client = pieces.connect()
    assert committed_code(client) == 0
    pieces.worker.outbox.log_dir_failed(0, "the test says so")
    pieces.settle()
    assert committed_code(client) == ErrorCode.NOT_COORDINATOR


def test_a_log_that_can_not_be_read_costs_its_groups_only(pieces: Pieces, caplog: pytest.LogCaptureFixture) -> None:
    """One record that is no record of a coordinator, in the partition of one of two groups."""
    with_offsets_topic(pieces)
    client = pieces.connect()
    groups = {_partition_of(pieces, group): group for group in ("a", "b", "c", "d")}
    assert sorted(groups) == [0, 1]
    for group in groups.values():
        assert committed_code(client, group, 7) == 0
    pieces.kill(WORKER)
    (file,) = pieces.directory(OFFSETS, 0).glob("*.log")
    _append_damaged(file)
    with caplog.at_level(logging.ERROR):
        pieces.begin(WORKER)
        pieces.run_until_online(OFFSETS)
        pieces.settle()
    assert f"{OFFSETS}-0: cannot load its coordinator" in caplog.text
    assert committed(client, groups[0])[0] == ErrorCode.NOT_COORDINATOR
    assert committed(client, groups[1]) == (0, 7)


def test_groups_are_described_by_their_own_shards(pieces: Pieces) -> None:
    with_offsets_topic(pieces, 3)
    client = pieces.connect()
    groups = tuple(f"g{number}" for number in range(12))
    for group in groups:
        assert committed_code(client, group) == 0
    described = read(DESCRIBE, client.ask(asked(DESCRIBE, groups=(*groups, "nobody"))))
    states = {row.group_id: row.group_state for row in described.groups}
    assert states == {**dict.fromkeys(groups, "Empty"), "nobody": "Dead"}


def _joined(pieces: Pieces, count: int, monkeypatch: pytest.MonkeyPatch) -> list[Client]:
    """So many members of one group, one of whom is answered, and no other before the worker's next passes."""
    monkeypatch.setattr("kafkad.processes.worker.coordinators.coordinator_responses.AT_ONCE", 1)
    monkeypatch.setattr("kafkad.processes.worker.coordinators.coordinator_responses.A_STEP", 1)
    with_offsets_topic(pieces)
    members = [pieces.connect() for _ in range(count)]
    for member in members:
        member.send(join())
    monkeypatch.setattr("kafkad.processes.worker.loop.STEP_S", 0.0)
    pieces.run(lambda: _answered(members), "the first member is answered")
    return members


def _answered(members: list[Client]) -> int:
    return sum(bool(member.replies) for member in members)


def _leader(member: Client) -> str:
    return str(read(JOIN, member.replies[0][1]).leader)


def test_very_many_members_are_answered_in_steps(
    make_pieces: Callable[..., Pieces], monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces = make_pieces(group_initial_rebalance_delay_ms="50")
    members = _joined(pieces, 6, monkeypatch)
    assert _answered(members) < 4
    pieces.run(lambda: _answered(members) == len(members), "all are answered")


def test_a_new_network_process_gets_no_answers_of_the_one_before(
    make_pieces: Callable[..., Pieces], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They name their requests by numbers, which begin at one again."""
    pieces = make_pieces(group_initial_rebalance_delay_ms="50")
    members = _joined(pieces, 6, monkeypatch)
    leaders = {_leader(member) for member in members if member.replies}
    pieces.kill(NETWORK)
    pieces.clients.clear()
    monkeypatch.setattr(Turns, "work", lambda *_: None)
    pieces.begin(NETWORK)
    pieces.run_until_known()
    waiting = [pieces.connect() for _ in range(6)]
    for client in waiting:
        client.send(join("other"))
    pieces.settle()
    monkeypatch.undo()
    pieces.run(lambda: _answered(waiting) == len(waiting), "all are answered")
    assert leaders.isdisjoint(map(_leader, waiting))


def _partition_of(pieces: Pieces, group: str) -> int:
    return partition_for(group, len(pieces.image.topics[OFFSETS].partitions))


def _append_damaged(file: Path) -> None:
    batch = bytearray(build_batch([NewRecord(0, b"\x00\x01\x00", b"no offset")]))
    assign_offsets(memoryview(batch), 0, 1, 0)
    with file.open("ab") as log:
        log.write(batch)


def fail(*_: Any) -> NoReturn:
    raise ZeroDivisionError("a bug")


def test_bug_in_a_request_that_only_reads_costs_that_request(
    pieces: Pieces, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with_offsets_topic(pieces)
    api = COORDINATED[DESCRIBE]
    failing = SimpleNamespace(handle=fail, pack=api.module.pack, reject=api.module.reject)
    monkeypatch.setitem(COORDINATED, DESCRIBE, replaced(api, module=failing))
    client = pieces.connect()
    (group,) = read(DESCRIBE, client.ask(asked(DESCRIBE, groups=("g",)))).groups
    assert int(group.error_code) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert caplog.messages[-1].startswith("127.0.0.1: DescribeGroups (version 0) failed: ZeroDivisionError: a bug (")
    assert committed_code(client) == 0, "the shard goes on"


def test_bug_in_a_request_that_changes_something_ends_the_worker(
    pieces: Pieces, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_offsets_topic(pieces)
    api = COORDINATED[JOIN]
    failing = SimpleNamespace(handle=fail, pack=api.module.pack, reject=api.module.reject)
    monkeypatch.setitem(COORDINATED, JOIN, replaced(api, module=failing))
    client = pieces.connect()
    client.send(join())
    with pytest.raises(ZeroDivisionError):
        pieces.settle()


def test_events_of_groups_are_limited_for_each_address(
    make_pieces: Callable[..., Pieces], caplog: pytest.LogCaptureFixture
) -> None:
    pieces = make_pieces(group_initial_rebalance_delay_ms="600000")
    with_offsets_topic(pieces)
    with caplog.at_level(logging.INFO):
        for number in range(3 * EVENTS_A_MINUTE):
            pieces.connect().send(join(f"g{number}"))
        pieces.run(lambda: len(pieces.network.request_handlers.coordinators) == 3 * EVENTS_A_MINUTE, "all wait")
        pieces.settle()
        assert len([line for line in caplog.messages if "rebalance of 1 member(s)" in line]) == EVENTS_A_MINUTE
        pieces.worker.coordinator_messages.close()
    count = 2 * EVENTS_A_MINUTE
    expected = f"{count} more events of groups and transactions were caused by 127.0.0.1 in the minute after that"
    assert caplog.messages[-1] == expected
