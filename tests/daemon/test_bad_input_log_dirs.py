"""Log directories that can't be used: the start is refused with one line that says why, and exit code 2."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.brokers.daemon import Kafkad
from bench.brokers.ports import free_port


def _refused(log_dirs: str) -> str:
    """The one line with which a broker on `log_dirs` ends, and exit code 2."""
    listeners = f"listeners=PLAINTEXT://127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "kafkad", "start", "--override", listeners, "--override", f"log.dirs={log_dirs}"]
    command += ["--override", "kafkad.metrics.listener="]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert outcome.returncode == 2, outcome.stderr
    (line,) = outcome.stderr.splitlines()
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
    assert Path(log_dir).name in _refused(log_dir)


def test_directory_of_another_broker_is_named_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.properties").write_text("version=0\nbroker.id=77\ncluster.id=someone-elses\n")
    line = _refused(str(tmp_path / "data"))
    assert "belongs to broker 77" in line and "set broker.id=77" in line


def test_directory_of_a_running_broker_is_named_with_its_holder(tmp_path: Path) -> None:
    with Kafkad(tmp_path) as holder:
        line = _refused(str(holder.log_dir))
        assert str(holder.log_dir) in line and str(holder.pid) in line


@pytest.mark.parametrize("again", ["data/", "data/.", "other/../data", "link", "missing/../data"])
def test_a_directory_that_is_there_twice_is_named_by_both_names(tmp_path: Path, again: str) -> None:
    (tmp_path / "link").symlink_to("data")
    (tmp_path / "other").mkdir()
    line = _refused(f"{tmp_path}/data,{tmp_path}/{again}")
    assert f"{tmp_path}/data are one log directory" in line and again.rstrip("/.") in line


def test_directories_of_two_clusters_do_not_go_together(tmp_path: Path) -> None:
    for name in ("one", "other"):
        with Kafkad(tmp_path / name):
            pass
    assert "cluster" in _refused(f"{tmp_path}/one/data,{tmp_path}/other/data")


def test_directories_that_were_set_aside_are_named_once_and_stay(tmp_path: Path) -> None:
    names = [f"orders-{at}.{'a' * 32}-{state}" for at, state in enumerate(("stray", "future"))]
    broker = Kafkad(tmp_path)
    for name in names:
        (broker.log_dir / name).mkdir(parents=True)
    with broker:
        assert broker.stop() == 0
    (line,) = [line for line in broker.output.read_text().splitlines() if "set aside" in line]
    assert all(f"{broker.log_dir}/{name}" in line for name in names)
    assert all((broker.log_dir / name).is_dir() for name in names)
