"""An export that is killed at every line: `python -m tests.lakehouse.export.crash_points KIND FOLDER [STEP]`.

KIND is that of the table; parquet-s3 is one in an object store, and parquet-latest one of the latest of each key. With
parquet-merged it is `kafkad export maintain` that is killed, and the table stays what it is.

For each line (or each STEPth) of the code that asks the table, plans, writes files and commits, as far as it is ours or
the catalog's: a process runs an export and kills itself there; another one looks at the table, which has to be as
before or as after the commit, and runs the export again. This is done for the first commit of a table and the second,
each with dead letters. Prints how many such lines there were.

What an export imports when it needs it is imported before: else each process spends ten times as long on that as on the
rest, and is killed at the lines of definitions.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import sql  # noqa: F401

import kafkad_lakehouse.export.latest
import kafkad_lakehouse.export.values.batches  # noqa: F401
from kafkad.core.log.records.record import NewRecord, build_batch
from kafkad.core.log.recovery.checkpoints import HIGH_WATERMARKS
from kafkad_lakehouse.export.coverage import Returned
from kafkad_lakehouse.export.dead_letters import folder_of_dead_letters
from kafkad_lakehouse.export.preparation import prepare
from kafkad_lakehouse.export.request import KEEP_ALL, KEEP_LATEST, ExportRequest
from kafkad_lakehouse.export.run import remove_orphans, run_export
from kafkad_lakehouse.export.sinks import delta, iceberg, parquet  # noqa: F401
from kafkad_lakehouse.export.sinks.manifest_log import CHECKPOINTS, LOG
from kafkad_lakehouse.export.sinks.sink import Merging, Sink
from kafkad_lakehouse.export.table_folder import TableFolder
from kafkad_lakehouse.export.tables import open_dead_letters, open_sink
from kafkad_lakehouse.export.task import Task, run_task
from kafkad_lakehouse.export.values.format import ValueFormat
from tests.lakehouse.export.object_store import BUCKET, object_store, use
from tests.lakehouse.export.reading.test_log_directories import checkpoint, partition

_FIRST, _SECOND, _THIRD = 6, 12, 15
_WATCHED = (
    *("/kafkad_lakehouse/export/preparation.py", "/kafkad_lakehouse/export/ranges.py"),
    *("/kafkad_lakehouse/export/task.py", "/kafkad_lakehouse/export/latest.py", "/kafkad_lakehouse/export/writing.py"),
    *("/kafkad_lakehouse/export/sinks/", "/kafkad_lakehouse/export/run.py", "/kafkad_lakehouse/export/table_folder.py"),
    *("/kafkad_lakehouse/export/conditional_puts.py", "/pyiceberg/catalog/sql.py"),
)
IN_S3, LATEST, MERGED = "-s3", "-latest", "-merged"
_KEYS = 4
_HOUR_MS = 3_600_000
"""Between a record and the next one."""
_SURVIVED, _FAILED = 0, 1


class Points:
    """Kills this process at the so-manieth line; a line counts when it is first reached."""

    def __init__(self, deadly: int) -> None:
        self._deadly = deadly
        self._seen: set[tuple[str, int]] = set()

    def watch(self) -> None:
        sys.settrace(self._entered)

    def _entered(self, frame: FrameType, event: str, arg: object) -> Callable[..., Any] | None:
        return self._reached if any(part in frame.f_code.co_filename for part in _WATCHED) else None

    def _reached(self, frame: FrameType, event: str, arg: object) -> Callable[..., Any]:
        if event == "line":
            self._seen.add((frame.f_code.co_filename, frame.f_lineno))
            if len(self._seen) >= self._deadly:
                os.kill(os.getpid(), signal.SIGKILL)
        return self._reached


def wanted(kind: str, folder: Path, number: int) -> ExportRequest:
    schema = b'{"properties": {"n": {"type": "integer"}}}'
    return ExportRequest(
        topic="t",
        out=f"s3://{BUCKET}/table-{number}" if kind.endswith(IN_S3) else str(folder / f"table-{number}"),
        name="t",
        bootstrap="",
        source="files",
        log_dirs=(str(folder / "log"),),
        format=kind.partition("-")[0],
        catalog=f"sqlite:///{folder}/catalog-{number}.db" if kind == f"iceberg{IN_S3}" else "",
        keeps=KEEP_LATEST if kind.endswith(LATEST) else KEEP_ALL,
        formats=() if kind.endswith(LATEST) else (ValueFormat(kind="json", schema=schema),),
    )


def export(asked: ExportRequest, deadly: int | None) -> None:
    if deadly is not None:
        Points(deadly).watch()
    _export(asked)


def _export(asked: ExportRequest) -> None:
    sink = open_sink(asked)
    prepared = prepare(asked, sink)
    run_export(prepared, sink, _run_tasks, lambda _file: None)


def maintain(asked: ExportRequest, deadly: int | None) -> None:
    if deadly is not None:
        Points(deadly).watch()
    for out, sink in ((asked.out, open_sink(asked)), (folder_of_dead_letters(asked.out), open_dead_letters(asked))):
        remove_orphans(TableFolder(out), sink, 0)
        sink.merge_small(Merging(asked.target_file_bytes, asked.compression))
        sink.shorten_log(0)


def _run_tasks(tasks: Sequence[Task]) -> Iterator[Returned]:
    for task in tasks:
        yield from run_task(task)


def offsets(out: str, sink: Sink) -> list[int]:
    folder = TableFolder(out)
    found: list[int] = []
    for path in sink.files():
        found += pq.read_table(pa.BufferReader(folder.read(path)), columns=["offset"]).column("offset").to_pylist()
    return sorted(found)


def seen_by_patterns(out: str) -> list[int]:
    """The offsets in all files that a pattern finds."""
    found: list[int] = []
    for path in Path(out).rglob("*.parquet"):
        found += pq.read_table(path, columns=["offset"]).column("offset").to_pylist()
    return sorted(found)


def check(asked: ExportRequest, ends: tuple[int, ...], *, has_plain_readers: bool = False) -> None:
    """The table goes up to one of these ends; dead letters may be further. Plain readers know the folder only."""
    sink, letters = open_sink(asked), open_dead_letters(asked)
    before = seen_by_patterns(asked.out) if has_plain_readers else []
    state = sink.state([0])
    end = state.offsets.get(0, 0)
    assert end in ends, (end, ends)
    # The marker of complete hours is a part of the same commit.
    assert state.complete_until == (None if end == 0 else (end - 1) * _HOUR_MS * 1_000), (end, state.complete_until)
    if asked.keeps == KEEP_LATEST:
        assert offsets(asked.out, sink) == latest(end)
        return
    assert offsets(asked.out, sink) == [each for each in range(end) if not is_rubbish(each)]
    if has_plain_readers:
        # Before it was asked for its files some may have had no names yet.
        assert len(set(before)) == len(before) and set(before) <= set(seen_by_patterns(asked.out))
        assert seen_by_patterns(asked.out) == offsets(asked.out, sink)
    dead = offsets(folder_of_dead_letters(asked.out), letters)
    assert dead in [[each for each in range(last) if is_rubbish(each)] for last in ends if last >= end], (end, dead)


def key_of(offset: int) -> bytes:
    return b"%d" % (offset % _KEYS)


def value_of(offset: int) -> bytes | None:
    if offset % 5 == 4:
        return None
    return b"rubbish" if offset % 3 == 0 else b'{"n": %d}' % offset


def is_rubbish(offset: int) -> bool:
    return value_of(offset) == b"rubbish"


def latest(end: int) -> list[int]:
    found = {key_of(offset): offset for offset in range(end)}
    return sorted(offset for offset in found.values() if value_of(offset) is not None)


def in_child(work: Callable[[], None]) -> bool:
    """Returns whether it came to its end. Raises AssertionError when it failed."""
    child = os.fork()
    if child == 0:
        failed = True
        try:
            work()
            failed = False
        finally:
            if failed:
                sys.excepthook(*sys.exc_info())
            os._exit(_FAILED if failed else _SURVIVED)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return False
    assert os.waitstatus_to_exitcode(status) == _SURVIVED, "see above"
    return True


def walk(kind: str, folder: Path, step: int = 1) -> int:
    batches = [
        build_batch([NewRecord(at * _HOUR_MS, key_of(at), value_of(at))], base_offset=at) for at in range(_THIRD)
    ]
    partition(folder / "log", "t-0", *batches)
    survives = _survives_merged if kind.endswith(MERGED) else _survives
    point = 1
    while not survives(kind, folder, point):
        point += step
    return point // step


def _survives(kind: str, folder: Path, point: int) -> bool:
    """Whether neither of the two commits has so many lines."""
    asked = wanted(kind, folder, point)
    plain = kind == "parquet"
    survived = True

    def repeat(before: int, after: int) -> None:
        check(asked, (before, after), has_plain_readers=plain)
        export(asked, None)
        check(asked, (after,), has_plain_readers=plain)

    for before, after in ((0, _FIRST), (_FIRST, _SECOND)):
        checkpoint(folder / "log", HIGH_WATERMARKS, p0=after)
        survived = in_child(partial(export, asked, point)) and survived
        in_child(partial(repeat, before, after))
    return survived


def _survives_merged(kind: str, folder: Path, point: int) -> bool:
    """Whether neither of two commands, the second of which deletes what the first has replaced, has so many lines."""
    asked = wanted(kind, folder, point)
    survived = True

    def export_up_to(end: int) -> None:
        export(asked, None)
        check(asked, (end,))

    def tick() -> None:
        for _ in range(2):
            maintain(asked, None)
        check_files(asked)
        check(asked, (_SECOND,))

    for end in (_FIRST, _SECOND):
        checkpoint(folder / "log", HIGH_WATERMARKS, p0=end)
        in_child(partial(export_up_to, end))
    for _ in range(2):
        survived = in_child(partial(maintain, asked, point)) and survived
        in_child(partial(check, asked, (_SECOND,)))
    in_child(tick)
    checkpoint(folder / "log", HIGH_WATERMARKS, p0=_THIRD)
    in_child(partial(export_up_to, _THIRD))
    return survived


def check_files(asked: ExportRequest) -> None:
    """One is left of each table, and none of those that it has replaced; of a log of manifests, the newest."""
    for out, sink in ((asked.out, open_sink(asked)), (folder_of_dead_letters(asked.out), open_dead_letters(asked))):
        there = [name for name in TableFolder(out).names(recursive=True) if name.endswith(".parquet")]
        assert [name for name in there if "_log/" not in name] == sink.files() and len(sink.files()) == 1
        if isinstance(sink, parquet.ParquetSink):
            logged = [name for name in TableFolder(out).names(LOG, recursive=True) if "/." not in name]
            assert logged == [logged[0], logged[0].replace(LOG, CHECKPOINTS)]


def main(kind: str, folder: str, *step: str) -> None:
    with object_store() if kind.endswith(IN_S3) else nullcontext() as port:
        if port is not None:
            use(port)
        print(walk(kind, Path(folder), *map(int, step)))


if __name__ == "__main__":
    main(*sys.argv[1:])
