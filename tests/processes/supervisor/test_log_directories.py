"""Log directories that can't be used: the start is refused with one line that says why."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkad.config import load
from kafkad.processes.supervisor.resources import StartupFailed, acquire_resources


def _refusal(log_dirs: str) -> str:
    with tempfile.TemporaryDirectory() as runtime:
        settings = {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": log_dirs,
            "kafkad.runtime.dir": runtime,
            "kafkad.metrics.listener": "",
        }
        with pytest.raises(StartupFailed) as refused:
            acquire_resources(load(None, list(settings.items()))).close()
    (line,) = str(refused.value).splitlines()
    return line


def _file_in_its_place(folder: Path) -> str:
    (folder / "data").write_text("not a directory")
    return str(folder / "data")


def _below_a_file(folder: Path) -> str:
    return _file_in_its_place(folder) + "/deeper"


def _where_nothing_can_be_made(folder: Path) -> str:
    # Read-only also for root, whom permissions do not stop.
    return "/proc/kafkad-data"


@pytest.mark.parametrize("make", [_file_in_its_place, _below_a_file, _where_nothing_can_be_made])
def test_directory_that_can_not_be_used_is_named_with_the_reason(tmp_path: Path, make: Callable[[Path], str]) -> None:
    log_dir = make(tmp_path)
    assert Path(log_dir).name in _refusal(log_dir)


@pytest.mark.parametrize("again", ["data/", "data/.", "other/../data", "link", "missing/../data"])
def test_a_directory_that_is_there_twice_is_named_by_both_names(tmp_path: Path, again: str) -> None:
    (tmp_path / "link").symlink_to("data")
    (tmp_path / "other").mkdir()
    line = _refusal(f"{tmp_path}/data,{tmp_path}/{again}")
    assert f"{tmp_path}/data are the same directory" in line and again.rstrip("/.") in line
