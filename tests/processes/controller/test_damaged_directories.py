"""Log directories in which something is not as a broker leaves it: what the start says, and what it makes of it."""

import shutil
from pathlib import Path
from uuid import UUID

import pytest

from kafkad.adapters.files.log_directory import LogDirectory, LogDirectoryUnusable
from kafkad.processes.controller import log_dirs
from kafkad.processes.controller.log_dirs import scan, sync_names
from tests.processes.controller.opened import forked, make, opened_on, started


def _lines(caplog: pytest.LogCaptureFixture, part: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if part in record.getMessage()]


def test_a_partition_behind_a_symbolic_link_is_served(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Somebody has moved it to a larger disk, as with Apache Kafka."""
    make(tmp_path / "elsewhere")
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "a-0").symlink_to(tmp_path / "elsewhere")
    with started(tmp_path) as opened:
        assert [row.log_dir for row in opened.hosting.image.topics["a"].partitions] == [0]
    caplog.clear()
    with started(tmp_path) as opened:
        assert [row.log_dir for row in opened.hosting.image.topics["a"].partitions] == [0]
    assert not _lines(caplog, "begin anew")


def test_a_partition_whose_topic_id_is_damaged_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    make(tmp_path / "one" / "a-0")
    with started(tmp_path):
        pass
    (tmp_path / "one" / "a-0" / "partition.metadata").write_bytes(bytes(44))
    with started(tmp_path) as opened:
        assert [row.log_dir for row in opened.hosting.image.topics["a"].partitions] == [0]
    (line,) = _lines(caplog, "partition.metadata")
    assert str(tmp_path / "one" / "a-0") in line and "taken for the topic of its name" in line


def test_a_log_directory_that_was_removed_is_offline_for_the_next_controller_process(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each controller process ended when it wrote the directory's meta.properties."""
    with forked({"log.dirs": f"{tmp_path}/one,{tmp_path}/two"}) as context:
        opened_on(context).store.close()
        shutil.rmtree(tmp_path / "two")
        opened = opened_on(context)
        opened.store.close()
    assert opened.offline == {1}
    assert _lines(caplog, "was removed and is offline") == [f"log directory {tmp_path}/two was removed and is offline"]


@pytest.mark.parametrize("name", ["a-0", f"a-0.{7:032x}-future"])
def test_a_topic_id_that_can_not_be_read_costs_the_log_directory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    make(tmp_path / "two" / "b-0")
    (tmp_path / "two" / name / "partition.metadata").mkdir(parents=True)
    with started(tmp_path) as opened:
        assert opened.offline == {1}
    (line,) = _lines(caplog, "can't be read and is offline")
    assert str(tmp_path / "two" / name) in line


def test_two_directories_with_one_id_are_refused(tmp_path: Path) -> None:
    """A disk and its copy; Apache Kafka refuses them, too."""
    make(tmp_path / "one" / "a-0")
    with started(tmp_path):
        pass
    shutil.copy(tmp_path / "one" / "meta.properties", tmp_path / "two" / "meta.properties")
    with pytest.raises(LogDirectoryUnusable, match=r"have the same directory\.id") as refused, started(tmp_path):
        pass
    assert f"{tmp_path}/one and {tmp_path}/two" in str(refused.value)


def test_meta_properties_of_the_first_directory_that_can_not_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "one" / "meta.properties").mkdir(parents=True)
    with pytest.raises(LogDirectoryUnusable, match=r"^meta\.properties can't be read: "), started(tmp_path):
        pass


def test_a_log_directory_that_was_removed_can_not_be_synced(tmp_path: Path) -> None:
    """A controller process ended when it forgot a deleted topic."""
    directories = [LogDirectory(tmp_path / name) for name in ("one", "two")]
    shutil.rmtree(tmp_path / "two")
    assert list(sync_names(directories, offline=())) == [1]
    for each in directories:
        each.close()


@pytest.mark.interpreted
def test_a_directory_that_is_renamed_while_it_is_read_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker renames the old directory of a partition that it has moved, while a controller process starts."""
    make(tmp_path / "a-0")
    make(tmp_path / "b-0")

    def renamed(directory: str) -> UUID | None:
        if directory.endswith("a-0"):
            Path(directory).rename(f"{directory}.0-delete")
            return None
        return UUID(int=7)

    monkeypatch.setattr(log_dirs, "_topic_id", renamed)
    assert [each.name for each in scan(0, tmp_path, lambda *_: True)] == ["b-0"]
