"""What is read before recovery comes to it."""

import threading
from pathlib import Path

import pytest

from bench.brokers.processes import eventually
from kafkad.processes.worker.disks.recovery_read_ahead import RecoveryReadAhead, read_log


class Disk:
    """Reads that begin and do not end before they are let go."""

    def __init__(self) -> None:
        self.begun: list[Path] = []
        self._ends: dict[Path, threading.Event] = {}

    def read(self, directory: Path, _recovery_point: int) -> None:
        end = self._ends.setdefault(directory, threading.Event())
        self.begun.append(directory)
        assert end.wait(60)

    def end(self, *directories: Path) -> None:
        for directory in directories:
            self._ends.setdefault(directory, threading.Event()).set()


def path(log_dir: int, number: int) -> Path:
    return Path(f"/{log_dir}/orders-{number}")


@pytest.mark.parametrize("threads", [1, 3])
def test_each_log_directory_has_as_many_reads_under_way_as_the_option_says(threads: int) -> None:
    disk = Disk()
    ahead = RecoveryReadAhead(threads, 2, disk.read)
    for log_dir in range(2):
        for number in range(5):
            ahead.add((log_dir, number), log_dir, path(log_dir, number), 0)
    ahead.tick()
    first = {path(log_dir, number) for log_dir in range(2) for number in range(threads)}
    eventually(lambda: set(disk.begun) == first, what="the first reads have begun")
    disk.end(path(1, 0))

    def went_on() -> bool:
        ahead.tick()
        return set(disk.begun) == first | {path(1, threads)}

    eventually(went_on, what="the next one of that directory follows")
    disk.end(*(path(log_dir, number) for log_dir in range(2) for number in range(5)))
    ahead.close()
    assert len(disk.begun) == 2 * threads + 1


def test_logs_that_recovery_has_come_to_are_not_read() -> None:
    disk = Disk()
    ahead = RecoveryReadAhead(1, 1, disk.read)
    for number in range(3):
        ahead.add(number, 0, path(0, number), 0)
    disk.end(path(0, 2))
    ahead.skip(0)
    ahead.skip(1)
    ahead.tick()
    ahead.close()
    assert disk.begun in ([], [path(0, 2)])


def test_only_what_recovery_needs_is_read(tmp_path: Path) -> None:
    """Segments below the recovery point are left alone, and nothing that goes wrong is raised."""
    for base in (0, 10, 20):
        (tmp_path / f"{base:020d}.log").write_bytes(bytes(3_000_000))
    before = _read_bytes()
    read_log(tmp_path, 15)
    assert _read_bytes() - before >= 6_000_000
    before = _read_bytes()
    read_log(tmp_path, 20)
    assert 3_000_000 <= _read_bytes() - before < 6_000_000
    read_log(tmp_path / "nothing", 0)


def _read_bytes() -> int:
    """By all threads of this process, from the page cache too."""
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["rchar"])
