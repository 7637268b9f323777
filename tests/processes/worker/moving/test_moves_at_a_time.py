"""num.replica.alter.log.dirs.threads says how many partitions are copied at a time."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs

from bench.brokers.processes import WITHIN_S
from kafkad.adapters.files import log_copy
from kafkad.core.controller.deltas import PartitionsChanged
from kafkad.core.log.records.record import NewRecord, build_batch
from kafkad.processes.worker.moving import moves
from kafkad.wire.processes.controller_messages import PartitionMoved
from tests.processes.pieces import Pieces
from tests.tools.raw_requests import produce, read_produced

MANY = "many"
PARTITIONS = 4
TARGET = 1
THREADS = "num_replica_alter_log_dirs_threads"
NOW = 1_700_000_000_000
PASSES = 20


class SlowCopies:
    """Each first step of a copy waits until all are let through."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.waiting: list[str] = []
        self._let_through = threading.Event()
        self._copy_bytes = log_copy.copy_bytes
        monkeypatch.setattr(moves, "copy_bytes", self._slow)

    def let_through(self) -> None:
        self._let_through.set()

    def _slow(self, source: str, target: str, start: int, end: int, *, sync: bool) -> None:
        self.waiting.append(source)
        assert self._let_through.wait(WITHIN_S)
        self._copy_bytes(source, target, start, end, sync=sync)


def folders(pieces: Pieces) -> list[str]:
    target = Path(pieces.config.log_dirs.log_dirs[TARGET])
    return [each.name for each in target.glob(f"{MANY}-*")]


@pytest.mark.parametrize(("threads", "at_a_time"), [("1", 1), ("2", 2), ("0", 1), (None, 3), ("9", PARTITIONS)])
def test_so_many_partitions_are_copied_at_a_time(
    make_pieces: Callable[..., Pieces],
    threads: str | None,
    at_a_time: int,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    log_dirs = ",".join(str(tmp_path / name) for name in ("one", "two", "three"))
    pieces = make_pieces(log_dirs=log_dirs, **{THREADS: threads} if threads is not None else {})
    pieces.create_topic(MANY, PARTITIONS)
    pieces.run_until_online(MANY)
    client = pieces.connect()
    data = build_batch([NewRecord(NOW, b"k", b"v")])
    rows = {(MANY, partition): data for partition in range(PARTITIONS)}
    assert all(row.error == 0 for row in read_produced(client.ask(produce(rows))).values())
    copies = SlowCopies(monkeypatch)
    changed = [structs.replace(row, future_dir=TARGET) for row in pieces.image.topics[MANY].partitions]
    pieces.publish(PartitionsChanged(MANY, tuple(changed)))
    pieces.run(lambda: len(copies.waiting) == at_a_time, "they are being copied")
    for _ in range(PASSES):
        pieces.turn()
    assert (len(copies.waiting), len(folders(pieces))) == (at_a_time, at_a_time)
    copies.let_through()
    pieces.run(lambda: said(pieces) == {0, 1, 2, 3}, "all are moved")
    assert sorted(folders(pieces)) == [f"{MANY}-{partition}" for partition in range(PARTITIONS)]


def said(pieces: Pieces) -> set[int]:
    """The partitions of which the controller has heard that they are moved."""
    return {each.partition for each in pieces.heard if isinstance(each, PartitionMoved) and each.log_dir == TARGET}
