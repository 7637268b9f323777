"""Check before the commit that the tasks returned the whole plan: each offset once, all files, all rows. Pure.

A task returns a manifest for each complete range, with the numbers of files and rows. Results may be lost or repeated
between an engine and the driver, or belong to another plan.
"""

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from math import inf
from typing import NamedTuple

from kafkad_lakehouse.export.problems import ExportFailed
from kafkad_lakehouse.export.ranges import OffsetRange
from kafkad_lakehouse.export.writing import WrittenFile


class Skipped(NamedTuple):
    """A skipped batch, with its offsets and the reason."""

    partition: int
    start: int
    end: int
    reason: str


class Manifest(NamedTuple):
    """A complete range, with its numbers of files, records and dead letters."""

    range: OffsetRange
    files: int
    records: int
    dead_letters: int
    skipped: tuple[Skipped, ...] = ()

    def to_json(self) -> str:
        return json.dumps(self._asdict())


Returned = WrittenFile | Manifest
"""A result of a task: each complete file, and after the files of a range its manifest."""


def returned_from_json(text: str) -> Returned:
    row = json.loads(text)
    if "path" in row:
        return WrittenFile(**row)
    skipped = tuple(Skipped(*each) for each in row["skipped"])
    return Manifest(**{**row, "range": OffsetRange(*row["range"]), "skipped": skipped})


def check_coverage(planned: Iterable[OffsetRange], manifests: Iterable[Manifest], files: Sequence[WrittenFile]) -> None:
    """Raises `ExportFailed` unless the manifests cover exactly the planned ranges and count exactly these files.

    A planned range may be divided among several manifests.
    """
    returned = sorted(manifests)
    _check_ranges(sorted(each for each in planned if each.start < each.end), [each.range for each in returned])
    of_range: list[list[WrittenFile]] = [[] for _ in returned]
    for file in files:
        of_range[_manifest_index(file, returned)].append(file)
    for manifest, found in zip(returned, of_range, strict=True):
        _check_counts(manifest, found)
    # Dead letters and each hour of a range have separate files.
    in_order = sorted(files, key=lambda each: (*_kind(each), each.first_offset))
    for one, other in pairwise(in_order):
        if _kind(one) == _kind(other) and other.first_offset <= one.last_offset:
            raise _coverage_error(f"{one.path} and {other.path} have the same offsets")


def _check_ranges(planned: Sequence[OffsetRange], returned: Sequence[OffsetRange]) -> None:
    for each in returned:
        if each.start >= each.end:
            raise _coverage_error(f"{_name(each)} are an empty range")
    for one, other in pairwise(returned):
        if one.partition == other.partition and other.start < one.end:
            raise _coverage_error(f"{_name(other._replace(end=min(one.end, other.end)))} were returned twice")
    for each in _difference(planned, returned):
        raise _coverage_error(f"{_name(each)} are missing")
    for each in _difference(returned, planned):
        raise _coverage_error(f"{_name(each)} were not requested")


def _difference(ranges: Iterable[OffsetRange], others: Sequence[OffsetRange]) -> Iterator[OffsetRange]:
    """The offsets of `ranges` that are in none of the others. Both are sorted and have no overlaps."""
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
                    # The other range may continue in the next range.
                    break
            at += 1
        if start < each.end:
            yield each._replace(start=start)


def _manifest_index(file: WrittenFile, manifests: Sequence[Manifest]) -> int:
    """The index of the manifest that counts this file."""
    at = bisect_right(manifests, (file.partition, file.first_offset, inf), key=lambda each: each.range) - 1
    if at < 0 or not _is_within(file, manifests[at].range):
        raise _coverage_error(f"{file.path} has offsets that were not requested")
    if not 0 < file.rows <= file.last_offset - file.first_offset + 1:
        raise _coverage_error(f"{file.path} can't have {file.rows} rows")
    return at


def _is_within(file: WrittenFile, offset_range: OffsetRange) -> bool:
    return (
        file.partition == offset_range.partition
        and offset_range.start <= file.first_offset <= file.last_offset < offset_range.end
    )


def _check_counts(manifest: Manifest, files: Sequence[WrittenFile]) -> None:
    dead = sum(each.rows for each in files if each.is_dead_letters)
    found = manifest._replace(files=len(files), records=sum(each.rows for each in files) - dead, dead_letters=dead)
    if found != manifest:
        raise _coverage_error(
            f"{_name(manifest.range)} should be {_counts(manifest)}, but {_counts(found)} were returned"
        )


def _counts(manifest: Manifest) -> str:
    return f"{manifest.records} records and {manifest.dead_letters} dead letters in {manifest.files} files"


def _name(each: OffsetRange) -> str:
    return f"offsets {each.start} to {each.end - 1} of partition {each.partition}"


def _coverage_error(problem: str) -> ExportFailed:
    return ExportFailed(f"the results of the tasks differ from the plan, so nothing was committed: {problem}")


def _kind(file: WrittenFile) -> tuple[bool, int, str, str]:
    return file.is_dead_letters, file.partition, file.date or "", file.hour or ""
