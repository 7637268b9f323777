"""Files that go while a broker runs: taken away by hand, or removed by itself and still open somewhere.

Real, for the descriptors of other processes and for their time on the processor. Each test has partitions of its own.
"""

import contextlib
import os
import select
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.brokers.processes import eventually
from kafkad.core.errors import ErrorCode
from tests.daemon.served import Served
from tests.tools.raw_requests import (
    RawClient,
    batch,
    delete_records,
    fetch,
    list_offsets,
    produce,
    read_fetched,
    read_produced,
)

STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR
LONG_MS = 30_000
WINDOW_S = 2.0
LARGE = 700_000
SETTINGS = {"log.segment.bytes": str(1 << 20), "log.segment.delete.delay.ms": "50"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("broker"), SETTINGS, partitions=4) as running:
        yield running


def _write(client: RawClient, partition: int) -> int:
    return read_produced(client.ask(produce({("t", partition): batch(size=LARGE)})))["t", partition].error


def _processor_s(served: Served) -> float:
    """Processor time of the whole broker so far."""
    ticks = 0
    for process in served.broker.tree():
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _pass_time(served: Served) -> None:
    descriptor = os.pidfd_open(served.broker.pid)
    try:
        assert not select.select([descriptor], [], [], WINDOW_S)[0], served.broker.tail()
    finally:
        os.close(descriptor)


def test_removed_directory_costs_its_partition_and_nothing_else(served: Served) -> None:
    with served.connect() as client:
        for partition in (0, 1):
            assert [_write(client, partition) for _ in range(3)] == [0, 0, 0]
        shutil.rmtree(served.broker.log_dir / "t-0")
        for request in (fetch({("t", 0): 0}, max_wait_ms=LONG_MS), fetch({("t", 0): 2}, max_wait_ms=LONG_MS)):
            assert read_fetched(client.ask(request))["t", 0].error == STORAGE_ERROR
        assert client.ask(list_offsets("t", 0, 1))[-18:-16] == STORAGE_ERROR.to_bytes(2, "big")
        assert _write(client, 0) == STORAGE_ERROR
        before = _processor_s(served)
        _pass_time(served)
        assert _processor_s(served) - before < WINDOW_S / 10
        assert _write(client, 1) == 0
        assert read_fetched(client.ask(fetch({("t", 1): 0})))["t", 1].records
    served.one_line("its files were removed")
    assert not served.lines("exiting: unexpected error")


def _open_segments(served: Served, partition: int) -> list[str]:
    """What network processes have open of the partition; a removed file ends with " (deleted)"."""
    found = []
    for process in served.broker.tree():
        if process.title.endswith(tuple(f"network-{index}" for index in range(8))):
            for fd in Path(f"/proc/{process.pid}/fd").iterdir():
                with contextlib.suppress(FileNotFoundError):
                    found.append(os.readlink(fd))
    return [name for name in found if f"/t-{partition}/" in name]


@pytest.mark.parametrize(("partition", "stays"), [(2, False), (3, True)])
def test_disk_space_of_removed_segments_comes_back(served: Served, partition: int, stays: bool) -> None:
    """Whether the one who read them is gone, or has only stopped in the middle of what it was sent."""
    with served.connect() as writer, served.connect() as reader:
        assert [_write(writer, partition) for _ in range(4)] == [0, 0, 0, 0]
        reader.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        for offset in range(3):
            found = read_fetched(writer.ask(fetch({("t", partition): offset}, max_wait_ms=LONG_MS)))
            assert found["t", partition].records
        reader.send(fetch({("t", partition): 0}, max_wait_ms=LONG_MS))
        reader.sock.recv(1, socket.MSG_PEEK)
        assert len(_open_segments(served, partition)) >= 3
        # The log start, and no error.
        assert writer.ask(delete_records("t", partition, 3))[-10:] == (3).to_bytes(8, "big") + b"\0\0"
        gone = 2 if stays else 3
        eventually(lambda: _unlinked(served, partition) >= gone, what="the segments are unlinked")
        if stays:
            assert len(read_fetched(reader.reply()[1])["t", partition].records) > LARGE
        else:
            reader.sock.close()
        eventually(lambda: not _held(served, partition), what=f"these are closed: {_held(served, partition)}")


def _unlinked(served: Served, partition: int) -> int:
    return 4 - len(list((served.broker.log_dir / f"t-{partition}").glob("*.log")))


def _held(served: Served, partition: int) -> list[str]:
    return [name for name in _open_segments(served, partition) if "deleted" in name]
