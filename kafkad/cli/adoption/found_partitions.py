"""Find the partitions in log directories, and survey their files. Opens files only for reading."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kafkad.core.controller.startup.reconciliation import FoundDirectory, parse_directory
from kafkad.core.controller.topics.names import CLUSTER_METADATA_TOPIC
from kafkad.core.log.reading.dump import Source
from kafkad.core.log.reading.survey import LogSurvey, survey_segment
from kafkad.core.log.segments.layout import LOG, parse_directory_name, parse_file_name
from kafkad.core.types import TopicPartition
from kafkad.processes.controller.log_dirs import scan

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPartition:
    """`unfinished`: files of an interrupted deletion or compaction; a start completes it or reverts it."""

    name: TopicPartition
    path: Path
    directory: FoundDirectory
    logs: tuple[tuple[int, Path], ...]
    bytes: int
    unfinished: tuple[str, ...] = ()
    survey: LogSurvey = field(default_factory=LogSurvey)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundLogs:
    """`set_aside`: folders that Apache Kafka has renamed: deleted, moved or stray partitions."""

    partitions: list[FoundPartition]
    set_aside: list[Path]


def find_partitions(directories: Sequence[Path]) -> FoundLogs:
    """The partitions by topic and number; records are not read yet. Raises `StorageFailed`, OSError."""
    found = FoundLogs(partitions=[], set_aside=[])
    for at, log_dir in enumerate(directories):
        for directory in scan(at, log_dir, lambda topic, partition: False):
            name = parse_directory(directory.name)
            if name is None:
                renamed = parse_directory_name(directory.name)
                if renamed is not None and renamed.state:
                    found.set_aside.append(log_dir / directory.name)
            elif name.topic != CLUSTER_METADATA_TOPIC:
                found.partitions.append(_partition(name, log_dir / directory.name, directory))
    found.partitions.sort(key=lambda each: (each.name.topic, each.name.partition))
    return found


def _partition(name: TopicPartition, path: Path, directory: FoundDirectory) -> FoundPartition:
    logs, unfinished, total = [], [], 0
    for entry in os.scandir(path):
        total += entry.stat().st_size
        file = parse_file_name(entry.name)
        if file is None:
            continue
        if file.suffix:
            unfinished.append(entry.name)
        elif file.kind == LOG:
            logs.append((file.base_offset, path / entry.name))
    return FoundPartition(
        name=name,
        path=path,
        directory=directory,
        logs=tuple(sorted(logs)),
        bytes=total,
        unfinished=tuple(sorted(unfinished)),
    )


def read_records(partition: FoundPartition, progress: Progress) -> None:
    """Fill the partition's survey; calls `progress` with the number of bytes read."""
    for base_offset, path in partition.logs:
        with opened(path) as log:
            for done in survey_segment(partition.survey, log, base_offset):
                progress(done)


@contextmanager
def opened(path: Path) -> Iterator[Source]:
    """A file to read without mmap: truncation of a mapped file by a running broker would kill the command."""
    with path.open("rb") as file:
        descriptor = file.fileno()
        yield Source(
            name=path.name,
            size=os.fstat(descriptor).st_size,
            read_at=lambda size, position: os.pread(descriptor, size, position),
        )
