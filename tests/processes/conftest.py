"""A broker in pieces for each test that asks for one."""

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.processes.pieces import Pieces
from tests.processes.real_ports import PORTS


@pytest.fixture(autouse=True)
def ports() -> Iterator[None]:
    """Processes that a test begins wait until it turns them."""
    PORTS.install()
    yield
    PORTS.uninstall()


@pytest.fixture
def make_pieces(tmp_path: Path) -> Iterator[Callable[..., Pieces]]:
    made: list[Pieces] = []

    def make(**settings: str) -> Pieces:
        overrides = {name.replace("_", "."): value for name, value in settings.items()}
        pieces = Pieces(tmp_path / str(len(made)), overrides)
        made.append(pieces)
        pieces.start()
        return pieces

    yield make
    for pieces in made:
        pieces.close()


@pytest.fixture
def pieces(make_pieces: Callable[..., Pieces]) -> Pieces:
    return make_pieces()


@pytest.fixture
def fail_reads(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Each read of a file below this folder fails from now on, as one of a bad sector does."""

    def begin(folder: Path) -> None:
        reads = {"pread": os.pread, "preadv": os.preadv}

        def failing(name: str) -> Callable[..., object]:
            def read(fd: int, *rest: object) -> object:
                if os.readlink(f"/proc/self/fd/{fd}").startswith(str(folder)):
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
                return reads[name](fd, *rest)  # type: ignore[operator]

            return read

        for name in reads:
            monkeypatch.setattr(os, name, failing(name))

    return begin
