"""Have the tasks of a run returned what was planned: each offset once, with all files and all rows? Pure.

It is asked once, before the commit. A task says of each of its ranges when it is through, and how many files and rows
came of it; what an engine brings to the driver may get lost on the way, come twice, or belong to another plan.
"""

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from math import inf
from typing import NamedTuple

from kafkad.export.problems import ExportFailed
from kafkad.export.ranges import OffsetRange
from kafkad.export.writing import WrittenFile


class Skipped(NamedTuple):
    """A batch that is left out, with the offsets that it has, and why."""

    partition: int
    start: int
    end: int
    reason: str


class Manifest(NamedTuple):
    """A range is through; `files` have its records and dead letters, so many rows of each."""

    range: OffsetRange
    files: int
    records: int
    dead_letters: int
    skipped: tuple[Skipped, ...] = ()

    def to_json(self) -> str:
        return json.dumps(self._asdict())


Returned = WrittenFile | Manifest
"""What a task says: of each file when it is complete, and behind those of a range its manifest."""


def returned_from_json(text: str) -> Returned:
    row = json.loads(text)
    if "path" in row:
        return WrittenFile(**row)
    skipped = tuple(Skipped(*each) for each in row["skipped"])
    return Manifest(**{**row, "range": OffsetRange(*row["range"]), "skipped": skipped})


def check_coverage(planned: Iterable[OffsetRange], manifests: Iterable[Manifest], files: Sequence[WrittenFile]) -> None:
    """Raises `ExportFailed` unless the manifests are of the ranges that were planned, however they were cut, and the
    files are those that the manifests count.
    """
    returned = sorted(manifests)
    _check_ranges(sorted(each for each in planned if each.start < each.end), [each.range for each in returned])
    of_range: list[list[WrittenFile]] = [[] for _ in returned]
    for file in files:
        of_range[_place(file, returned)].append(file)
    for manifest, found in zip(returned, of_range, strict=True):
        _check_counts(manifest, found)
    # Dead letters, and each hour, have files of their own for the same range.
    in_order = sorted(files, key=lambda each: (*_kind(each), each.first_offset))
    for one, other in pairwise(in_order):
        if _kind(one) == _kind(other) and other.first_offset <= one.last_offset:
            raise _wrong(f"{one.path} and {other.path} have the same offsets")


def _check_ranges(planned: Sequence[OffsetRange], returned: Sequence[OffsetRange]) -> None:
    for each in returned:
        if each.start >= each.end:
            raise _wrong(f"{_name(each)} are none")
    for one, other in pairwise(returned):
        if one.partition == other.partition and other.start < one.end:
            raise _wrong(f"{_name(other._replace(end=min(one.end, other.end)))} were returned twice")
    for each in _beyond(planned, returned):
        raise _wrong(f"{_name(each)} are missing")
    for each in _beyond(returned, planned):
        raise _wrong(f"{_name(each)} were not requested")


def _beyond(ranges: Iterable[OffsetRange], others: Sequence[OffsetRange]) -> Iterator[OffsetRange]:
    """What is in none of the others, in one walk over both: each is sorted, and no two of one have the same offsets."""
    at = 0
    for each in ranges:
        start = each.start
        while at < len(others) and others[at] < (each.partition, each.end):
            other = others[at]
            if (other.partition, other.end) > (each.partition, start):
                if start < other.start:
                    yield each._replace(start=start, end=other.start)
                start = other.end
                if start > each.end:
                    # It may go on in the next one.
                    break
            at += 1
        if start < each.end:
            yield each._replace(start=start)


def _place(file: WrittenFile, manifests: Sequence[Manifest]) -> int:
    """The number of the manifest that counts this file."""
    at = bisect_right(manifests, (file.partition, file.first_offset, inf), key=lambda each: each.range) - 1
    if at < 0 or not _is_within(file, manifests[at].range):
        raise _wrong(f"{file.path} has offsets that were not requested")
    if not 0 < file.rows <= file.last_offset - file.first_offset + 1:
        raise _wrong(f"{file.path} can't have {file.rows} rows")
    return at


def _is_within(file: WrittenFile, wanted: OffsetRange) -> bool:
    return file.partition == wanted.partition and wanted.start <= file.first_offset <= file.last_offset < wanted.end


def _check_counts(manifest: Manifest, files: Sequence[WrittenFile]) -> None:
    dead = sum(each.rows for each in files if each.is_dead_letters)
    found = manifest._replace(files=len(files), records=sum(each.rows for each in files) - dead, dead_letters=dead)
    if found != manifest:
        raise _wrong(f"{_name(manifest.range)} should be {_counts(manifest)}, but {_counts(found)} were returned")


def _counts(manifest: Manifest) -> str:
    return f"{manifest.records} records and {manifest.dead_letters} dead letters in {manifest.files} files"


def _name(each: OffsetRange) -> str:
    return f"offsets {each.start} to {each.end - 1} of partition {each.partition}"


def _wrong(what: str) -> ExportFailed:
    return ExportFailed(f"the results of the tasks differ from the plan, so nothing was committed: {what}")


def _kind(file: WrittenFile) -> tuple[bool, int, str, str]:
    return file.is_dead_letters, file.partition, file.date or "", file.hour or ""
