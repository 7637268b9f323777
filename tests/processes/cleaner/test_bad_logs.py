"""Damage, disks that fill, and policies that misbehave: each costs the compaction of its own log, and is told once."""

import errno
import logging
import os
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from crc32c import crc32c

from kafkad.core.cleaning.record_filter import LatestOfEachKey
from kafkad.core.cleanup import FilterLimits
from kafkad.core.columns import records
from kafkad.core.columns.arrays import Flags
from kafkad.core.columns.records import RecordColumns
from kafkad.core.log.records.batch import Codec
from kafkad.core.log.records.record import NewRecord, build_batch
from kafkad.core.log.replicated import append_as_follower
from kafkad.core.log.segments.layout import LOG, file_name
from kafkad.core.log.segments.removal import delete_records_before, remove_files
from kafkad.processes.cleaner import compactor, time_limit
from tests.core.cleaning.cleaned_log import CONFIG
from tests.core.cleaning.naive import read_batches
from tests.core.log.batches import NOW
from tests.core.log.log_content import batch_offsets
from tests.processes.cleaner.compacting import Compacting, OwnedLog


@pytest.fixture
def compacting(tmp_path: Path) -> Iterator[Compacting]:
    running = Compacting(tmp_path)
    yield running
    running.close()


class Misbehaving(LatestOfEachKey):
    """As the policy's own filter, but for one answer."""

    def __init__(self, limits: FilterLimits, *, learns: Any = None, retains: Any = None) -> None:
        super().__init__(
            most_bytes=limits.most_bytes,
            load_factor=limits.load_factor,
            most_keys=limits.most_keys,
            seed=limits.seed,
        )
        self._learns = learns
        self._retains = retains
        self._asked = 0

    def learn(self, records: RecordColumns, first_offset: int) -> int:
        learned = super().learn(records, first_offset)
        return self._learns(records) if self._learns else learned

    def retains(self, records: RecordColumns, end_offset: int, now_ms: int) -> Flags:
        retained = super().retains(records, end_offset, now_ms)
        self._asked += 1
        # Not the first time: some of the segments are written by then.
        return self._retains(retained) if self._retains and self._asked > 3 else retained


def _raise(_: object) -> None:
    raise RuntimeError("no such luck")


RUBBISH: dict[str, dict[str, Any]] = {
    "raises while it learns": {"learns": _raise},
    "raises in mid-rewrite": {"retains": _raise},
    "learns nothing that there is": {"learns": lambda records: "all"},
    "learns batches that are not there": {"learns": lambda records: records.end_batch + 1},
    "learns less than nothing": {"learns": lambda records: -5},
    "retains as many as it likes": {"retains": lambda retained: retained[:1]},
    "retains numbers": {"retains": lambda retained: retained.astype(np.int64)},
    "retains nothing that is a column": {"retains": lambda retained: None},
}


def _errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


Latest = dict[bytes | None, tuple[int, bytes | None]]


def _latest(owned: OwnedLog) -> Latest:
    """Offset and value of each key's last record."""
    files = [path.read_bytes() for path in sorted(owned.path.glob("*.log"))]
    rows = [row for content in files for batch in read_batches(content) for row in batch.rows]
    return {row.key: (row.offset, row.value) for row in rows}


def _assert_costs_only_itself(compacting: Compacting, bad: OwnedLog, other: OwnedLog, before: Latest) -> None:
    assert _latest(bad) == before
    _assert_is_given_up(compacting, bad, other)


def _assert_is_given_up(compacting: Compacting, bad: OwnedLog, other: OwnedLog) -> None:
    assert not bad.left_over()
    assert bad.log.cleaned_offset < bad.log.segments.active.base_offset
    assert other.log.cleaned_offset == other.log.segments.active.base_offset
    (told,) = [row for row in compacting.compactor.rows({}) if row.failure]
    assert told.state == "quarantined" and told.retry_ms > 0


@pytest.mark.parametrize("how", RUBBISH)
def test_a_policy_that_misbehaves_costs_its_own_log_only(
    compacting: Compacting, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    bad, other = compacting.log("bad"), compacting.log("other")
    bad.write(400)
    other.write(20)
    before = _latest(bad)
    planned = bad.planned(lambda limits: Misbehaving(limits, **RUBBISH[how]))
    compacting.compactor.plan(planned)
    compacting.compactor.plan(other.planned())
    compacting.run()
    # It is in quarantine now, so nobody hears of it again.
    compacting.compactor.plan(planned)
    compacting.run()
    (line,) = _errors(caplog)
    assert line.startswith("cannot compact bad-0") and "policy 'compact' failed" in line
    _assert_costs_only_itself(compacting, bad, other, before)


def _wait(_: object) -> None:
    threading.Event().wait()


@pytest.mark.parametrize("answer", ["learns", "retains"])
def test_a_policy_that_never_returns_costs_its_own_log_only(
    compacting: Compacting, answer: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time_limit, "CHECK_INTERVAL_S", 0.05)
    monkeypatch.setattr(time_limit, "WAITS_S", 0.5)
    bad, other = compacting.log("bad"), compacting.log("other")
    bad.write(400)
    other.write(20)
    before = _latest(bad)
    compacting.compactor.plan(bad.planned(lambda limits: Misbehaving(limits, **{answer: _wait})))
    compacting.compactor.plan(other.planned())
    compacting.run()
    (line,) = _errors(caplog)
    assert line.startswith("cannot compact bad-0") and "policy 'compact': it did not return within" in line
    _assert_costs_only_itself(compacting, bad, other, before)


@pytest.mark.parametrize("part", ["clean", "dirty"])
def test_a_flipped_bit_is_named_by_file_and_byte(
    compacting: Compacting, part: str, caplog: pytest.LogCaptureFixture
) -> None:
    bad, other = compacting.log("bad"), compacting.log("other")
    bad.write(400)
    compacting.compactor.plan(bad.planned())
    compacting.run()
    assert bad.log.cleaned_offset > 0
    bad.write(50)
    other.write(20)
    name = file_name(_some_base(bad, part), LOG)
    with (bad.path / name).open("r+b") as file:
        file.seek(70)
        (byte,) = file.read(1)
        file.seek(70)
        file.write(bytes([byte ^ 4]))
    before = _latest(bad)
    compacting.compactor.plan(bad.planned())
    compacting.compactor.plan(other.planned())
    compacting.run()
    (line,) = _errors(caplog)
    assert line.startswith("cannot compact bad-0") and f"{name}, byte 0: " in line
    _assert_costs_only_itself(compacting, bad, other, before)


CRC_AT, ATTRIBUTES_AT, COUNT_AT = 17, 21, 57


def _lie(batch: bytearray, at: int, content: bytes) -> None:
    """The checksum is right all the same."""
    batch[at : at + len(content)] = content
    batch[CRC_AT:ATTRIBUTES_AT] = crc32c(batch[ATTRIBUTES_AT:]).to_bytes(4, "big")


LIES: dict[str, Callable[[bytearray], None]] = {
    **{
        f"compressed by {codec.name}": partial(_lie, at=ATTRIBUTES_AT, content=codec.to_bytes(2, "big"))
        for codec in Codec
        if codec is not Codec.NONE
    },
    "compressed by nobody": partial(_lie, at=ATTRIBUTES_AT, content=bytes((0, 7))),
    "no records": partial(_lie, at=COUNT_AT, content=bytes(4)),
    "more records": partial(_lie, at=COUNT_AT, content=bytes((0, 0, 0, 2))),
    "very many records": partial(_lie, at=COUNT_AT, content=bytes((127, 255, 255, 255))),
    "less than no records": partial(_lie, at=COUNT_AT, content=bytes((255, 255, 255, 255))),
}


@pytest.mark.parametrize("part", ["clean", "dirty"])
@pytest.mark.parametrize("lie", LIES)
def test_a_batch_that_lies_costs_its_own_log_only(
    compacting: Compacting, lie: str, part: str, caplog: pytest.LogCaptureFixture
) -> None:
    bad, other = compacting.log("bad"), compacting.log("other")
    bad.write(400)
    compacting.compactor.plan(bad.planned())
    compacting.run()
    bad.write(50)
    other.write(20)
    file = bad.path / file_name(_some_base(bad, part), LOG)
    content = bytearray(file.read_bytes())
    end = 12 + int.from_bytes(content[8:12], "big")
    batch = content[:end]
    LIES[lie](batch)
    content[:end] = batch
    file.write_bytes(content)
    compacting.compactor.plan(bad.planned())
    compacting.compactor.plan(other.planned())
    compacting.run()
    (line,) = _errors(caplog)
    assert line.startswith("cannot compact bad-0") and f"{file.name}, byte 0: " in line
    assert file.read_bytes() == content
    _assert_is_given_up(compacting, bad, other)


def _some_base(owned: OwnedLog, part: str) -> int:
    """Of a segment in the clean or the dirty part of the log."""
    first_dirty = owned.log.cleaned_offset
    bases = [segment.base_offset for segment in owned.log.segments if segment.size]
    return max(base for base in bases if base < first_dirty) if part == "clean" else first_dirty


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD, Codec.LZ4, Codec.SNAPPY])
def test_a_batch_that_is_a_bomb_costs_its_own_log_only(
    compacting: Compacting, codec: Codec, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(records, "MAX_DECOMPRESSED_BYTES", 1 << 20)
    bad, other = compacting.log("bad"), compacting.log("other")
    bad.write(400)
    bad.append(NewRecord(NOW, b"key-0", bytes(5 << 20)), codec=codec)
    bad.seal()
    other.write(20)
    compacting.compactor.plan(bad.planned())
    compacting.compactor.plan(other.planned())
    compacting.run()
    (line,) = _errors(caplog)
    assert line.startswith("cannot compact bad-0") and ".log, byte " in line
    _assert_is_given_up(compacting, bad, other)


@pytest.mark.parametrize("part", ["clean", "dirty"])
def test_a_segment_that_cannot_be_read_costs_its_own_log_only(
    compacting: Compacting, part: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bad, other = compacting.log("bad"), compacting.log("other")
    bad.write(400)
    compacting.compactor.plan(bad.planned())
    compacting.run()
    bad.write(50)
    other.write(20)
    before = _latest(bad)
    unreadable = f"/bad-0/{file_name(_some_base(bad, part), LOG)}"

    def failing(read: Callable[..., Any]) -> Callable[..., Any]:
        def fail(fd: int, *rest: Any) -> Any:
            if os.readlink(f"/proc/self/fd/{fd}").endswith(unreadable):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return read(fd, *rest)

        return fail

    monkeypatch.setattr(os, "pread", failing(os.pread))
    monkeypatch.setattr(os, "preadv", failing(os.preadv))
    compacting.compactor.plan(bad.planned())
    compacting.compactor.plan(other.planned())
    compacting.run()
    (line,) = _errors(caplog)
    assert line.startswith("cannot compact bad-0") and unreadable in line and os.strerror(errno.EIO) in line
    _assert_costs_only_itself(compacting, bad, other, before)


@pytest.mark.parametrize("kind", ["log", "timeindex"])
def test_what_was_written_is_removed_when_the_disk_fills(
    compacting: Compacting, kind: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bad, other = compacting.log("bad"), compacting.log("other")
    bad.write(400)
    other.write(20)
    before = _latest(bad)
    true_write: Callable[..., int] = os.pwritev

    def full(fd: int, buffers: Any, position: int) -> int:
        target = os.readlink(f"/proc/self/fd/{fd}")
        if "/bad-0/" in target and target.endswith(f".{kind}.cleaned"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return true_write(fd, buffers, position)

    monkeypatch.setattr(os, "pwritev", full)
    compacting.compactor.plan(bad.planned())
    compacting.compactor.plan(other.planned())
    compacting.run()
    (line,) = _errors(caplog)
    assert line.startswith("cannot compact bad-0") and "no space left for" in line
    _assert_costs_only_itself(compacting, bad, other, before)


@pytest.mark.parametrize("unlinks", [False, True])
def test_records_that_are_deleted_while_they_are_compacted_do_not_come_back(
    compacting: Compacting, unlinks: bool, caplog: pytest.LogCaptureFixture
) -> None:
    owned = compacting.log("t")
    owned.write(400, size=200)
    bases = owned.log.segments.base_offsets
    assert len(bases) > 3
    compacting.compactor.plan(owned.planned())
    for _ in range(4):
        compacting.step()
    effects = delete_records_before(owned.log, bases[2] + 1)
    if unlinks:
        for effect in effects:
            remove_files(owned.log, effect)
    compacting.run()
    assert owned.log.segments[0].base_offset == bases[2]
    assert not _errors(caplog)
    # The next pass sees the log as it is now, and removes what this one has left.
    compacting.compactor.plan(owned.planned())
    compacting.run()
    assert owned.log.cleaned_offset == owned.log.segments.active.base_offset
    assert not owned.left_over()
    assert batch_offsets(owned.log.store, owned.log.log_end_offset)[0][0] >= bases[2]


def test_an_owner_that_does_not_swap_costs_the_pass_and_is_no_fault(
    compacting: Compacting, caplog: pytest.LogCaptureFixture
) -> None:
    owned = compacting.log("t")
    owned.write(100)
    owned.answers = False
    compacting.compactor.plan(owned.planned())
    compacting.run()
    assert owned.ended == [-1] and not _errors(caplog)
    owned.answers = True
    compacting.compactor.plan(owned.planned())
    compacting.run()
    assert owned.log.cleaned_offset == owned.log.segments.active.base_offset


def test_more_tombstones_than_the_map_holds_go_in_several_passes(tmp_path: Path) -> None:
    compacting = Compacting(tmp_path, log_cleaner_dedupe_buffer_size="1100000")
    owned = compacting.log("t")
    for first in range(0, 100_000, 1000):
        owned.append(*(NewRecord(NOW, b"%d" % number, None) for number in range(first, first + 1000)))
    owned.seal()
    passes = 0
    while owned.log.cleaned_offset < owned.log.segments.active.base_offset:
        compacting.compactor.plan(owned.planned())
        compacting.run()
        passes += 1
        assert passes < 10
    assert passes == 3
    compacting.close()


TOMBSTONES = 1_000_000


def test_a_million_tombstones_stay_until_their_time_and_go(
    compacting: Compacting, monkeypatch: pytest.MonkeyPatch
) -> None:
    owned = compacting.log("t")
    size = 10_000
    like = build_batch([NewRecord(NOW, b"=batch=-%04d" % number, None) for number in range(size)])
    for number in range(TOMBSTONES // size):
        batch = bytearray(like.replace(b"=batch=", b"%7d" % number))
        _lie(batch, 0, owned.log.log_end_offset.to_bytes(8, "big"))
        append_as_follower(owned.log, memoryview(batch), leader_epoch=0, now_ms=NOW)
    kept = []
    for wall_ms in (NOW, NOW + CONFIG.delete_retention_ms + 1):
        owned.write(1)
        monkeypatch.setattr(compactor, "wall_clock_ms", lambda wall_ms=wall_ms: wall_ms)
        compacting.compactor.plan(owned.planned())
        compacting.run()
        assert owned.log.cleaned_offset == owned.log.segments.active.base_offset
        (row,) = compacting.compactor.rows({})
        assert row.last is not None
        kept.append(row.last.records_written)
    assert kept == [TOMBSTONES + 1, 1]


def test_a_record_larger_than_the_buffers_is_compacted(tmp_path: Path) -> None:
    compacting = Compacting(tmp_path, log_cleaner_io_buffer_size="0")
    owned = compacting.log("t")
    for value in (b"old", os.urandom(1 << 20)):
        owned.append(NewRecord(NOW, b"key", value))
    owned.seal()
    while owned.log.cleaned_offset < owned.log.segments.active.base_offset:
        compacting.compactor.plan(owned.planned())
        compacting.run()
    ((_, kept),) = _latest(owned).values()
    assert kept is not None and len(kept) == 1 << 20
    compacting.close()
