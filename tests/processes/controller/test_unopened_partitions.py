"""Partitions that are in no log directory at the start of a broker: is that a loss?"""

from pathlib import Path

import pytest

from kafkad.wire.processes.controller_messages import AutoCreateRequest
from tests.processes.controller.opened import events, started
from tests.processes.pieces import NETWORK

EMPTY = "nothing is lost"
LOST = "records may be lost"


def create(folder: Path, *, stops: bool) -> None:
    """The broker stops, or is killed, before its workers have made a directory."""
    with events(folder) as played:
        played.hear(NETWORK, AutoCreateRequest(1, ["a", "b"]))
        played.run_until(lambda: bool(played.replies))
        if stops:
            assert played.events.finish()
            for directory in played.log_directories:
                directory.mark_clean_shutdown()


def lines_at_start(folder: Path, caplog: pytest.LogCaptureFixture) -> dict[str, str]:
    """Level and text of what the next start says about them."""
    caplog.clear()
    with caplog.at_level("INFO", "kafkad"), started(folder) as opened:
        assert set(opened.hosting.image.topics) == {"a", "b"}
    said = [(each.levelname, each.getMessage()) for each in caplog.records]
    return {level: line for level, line in said if EMPTY in line or LOST in line}


def test_partitions_that_were_created_and_never_opened_are_no_loss(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    create(tmp_path, stops=True)
    lines = lines_at_start(tmp_path, caplog)
    assert list(lines) == ["INFO"]
    assert lines["INFO"].startswith("2 partition(s) have no directory yet")
    assert lines["INFO"].endswith("nothing is lost: a (1 partition(s)), b (1 partition(s))")


def test_after_a_crash_nobody_knows_whether_they_had_records(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    create(tmp_path, stops=False)
    lines = lines_at_start(tmp_path, caplog)
    assert list(lines) == ["ERROR"]
    assert lines["ERROR"].endswith("2 partition(s) are in no directory of log.dirs and begin anew, empty: a-0, b-0")


def test_partitions_of_a_log_directory_that_is_taken_away_are_a_loss(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its checkpoint is gone as well: the other directory says nothing about them."""
    create(tmp_path, stops=True)
    (tmp_path / "two").rename(tmp_path / "elsewhere")
    lines = lines_at_start(tmp_path, caplog)
    assert sorted(lines) == ["ERROR", "INFO"]
    assert "1 partition(s)" in lines["ERROR"] and "1 partition(s)" in lines["INFO"]
