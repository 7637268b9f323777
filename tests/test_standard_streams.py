import os
import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kafkad.standard_streams import MAX_PENDING_BYTES, UnblockedOutput


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def fill(fd: int) -> bytes:
    """What the pipe takes until it is full, in lines."""
    again = os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK)
    written = b""
    with pytest.raises(BlockingIOError):
        while True:
            os.write(again, b"." * 63 + b"\n")
            written += b"." * 63 + b"\n"
    os.close(again)
    return written


def read_all(fd: int) -> bytes:
    again = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_NONBLOCK)
    read = b""
    with pytest.raises(BlockingIOError):
        while chunk := os.read(again, 1 << 20):
            read += chunk
    os.close(again)
    return read


def lines(count: int) -> list[bytes]:
    return [b"line %d\n" % number for number in range(count)]


def test_lines_come_at_once_while_they_are_read(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    output = UnblockedOutput(writer)
    for line in lines(3):
        output.write(line)
        assert read_all(reader) == line


def test_lines_wait_in_their_order_while_nobody_reads(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    before = fill(writer)
    output = UnblockedOutput(writer)
    for line in lines(2_000):
        output.write(line)
    assert output.is_blocked
    read = b""
    while output.is_blocked:
        read += read_all(reader)
        output.write_pending()
    output.write(b"the last\n")
    assert read + read_all(reader) == before + b"".join(lines(2_000)) + b"the last\n"


def test_others_keep_a_pipe_that_blocks(pipe: tuple[int, int]) -> None:
    UnblockedOutput(pipe[1])
    assert os.get_blocking(pipe[1])


def test_one_line_stands_for_those_that_were_dropped(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    fill(writer)
    output = UnblockedOutput(writer)
    output.describe_dropped = "{} dropped".format
    kept = MAX_PENDING_BYTES // 1024
    for number in range(kept + 5):
        output.write(b"%01023d\n" % number)
    read = b""
    while output.is_blocked:
        read += read_all(reader)
        output.write_pending()
    output.write(b"the next\n")
    said = (read + read_all(reader)).splitlines()
    assert [int(line) for line in said[-kept - 2 : -2]] == list(range(kept))
    assert said[-2:] == [b"5 dropped", b"the next"]


def test_last_lines_wait_for_a_reader_who_reads(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    before = fill(writer)
    output = UnblockedOutput(writer)
    output.write(b"the last\n")
    read = bytearray()
    wanted = before + b"the last\n"

    def read_slowly() -> None:
        while len(read) < len(wanted):
            read.extend(os.read(reader, 4096))

    reading = threading.Thread(target=read_slowly)
    reading.start()
    output.write_last(timeout_s=240)
    reading.join()
    assert read == wanted


def test_last_lines_do_not_wait_for_ever(pipe: tuple[int, int]) -> None:
    fill(pipe[1])
    output = UnblockedOutput(pipe[1])
    output.write(b"the last\n")
    output.write_last(timeout_s=0.01)
    assert output.is_blocked


def test_child_process_does_not_repeat_lines_of_its_parent(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    fill(writer)
    output = UnblockedOutput(writer)
    output.write(b"of the parent\n")
    output.forget_pending()
    read_all(reader)
    output.write(b"of the child\n")
    assert read_all(reader) == b"of the child\n"


def test_pipe_that_may_not_be_opened_again_does_not_block_either(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(tmp_path / "pipe", os.O_WRONLY)
    os.close(reader)
    # Without a reader it can't be opened to write, as little as another user's.
    output = UnblockedOutput(writer)
    reader = os.open(tmp_path / "pipe", os.O_RDONLY)
    assert output.fileno() == writer
    before = fill(writer)
    output.write(b"x" * 10_000 + b"\n")
    assert output.is_blocked
    read = b""
    while output.is_blocked:
        read += read_all(reader)
        output.write_pending()
    assert read + read_all(reader) == before + b"x" * 10_000 + b"\n"
    os.close(reader)
    os.close(writer)


def test_socket_that_nobody_reads_does_not_block() -> None:
    reader, writer = socket.socketpair()
    output = UnblockedOutput(writer.fileno())
    while not output.is_blocked:
        output.write(b"." * 1023 + b"\n")
    output.write(b"the last\n")
    read = b""
    while not read.endswith(b"the last\n"):
        read += reader.recv(1 << 20)
        output.write_pending()
    assert not output.is_blocked
    reader.close()
    writer.close()


def test_output_of_a_reader_that_ended_is_dropped() -> None:
    reader, writer = os.pipe()
    output = UnblockedOutput(writer)
    os.close(reader)
    output.write(b"a line\n")
    assert not output.is_blocked
    os.close(writer)


def test_lines_that_a_full_disk_did_not_take_are_counted(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as file:
        output = UnblockedOutput(file.fileno())
        output.describe_dropped = "{} dropped".format
        with file_size_limit(20):
            for line in (b"sixteen letters\n", b"sixteen letters\n", b"sixteen letters\n"):
                output.write(line)
        output.write(b"the next\n")
    said = (tmp_path / "log").read_bytes().splitlines()
    assert said == [b"sixteen letters", b"sixt", b"2 dropped", b"the next"]


@contextmanager
def file_size_limit(most: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
