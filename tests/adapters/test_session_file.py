"""The session's file: for the broker's eyes only, and worth nothing to another ensemble or when it is damaged."""

import os
from pathlib import Path

import pytest

from kafkad.adapters.stores.session_file import FILE_NAME, SessionFile

SESSION = (0x1000_0000_0000_0007, bytes(range(16)))


def test_what_was_written_is_read_until_it_is_removed(tmp_path: Path) -> None:
    file = SessionFile(tmp_path, "zk:2181/a")
    assert file.read() is None
    file.write(SESSION)
    assert SessionFile(tmp_path, "zk:2181/a").read() == SESSION
    file.write((8, b"x" * 16))
    assert file.read() == (8, b"x" * 16)
    file.remove()
    file.remove()
    assert file.read() is None


def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        SessionFile(tmp_path, "zk:2181").write(SESSION)
    finally:
        os.umask(before)
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o600


def test_the_session_of_another_ensemble_is_not_ours(tmp_path: Path) -> None:
    SessionFile(tmp_path, "zk:2181/a").write(SESSION)
    assert SessionFile(tmp_path, "zk:2181/b").read() is None


@pytest.mark.parametrize("content", [b"", b"{}", b'{"hosts":"zk:2181","session_id":"x","password":""}', b"\xff\0"])
def test_a_damaged_file_is_no_session(content: bytes, tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    assert SessionFile(tmp_path, "zk:2181").read() is None
