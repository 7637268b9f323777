"""Two directories of one partition, as a broker leaves them that dies while it moves the partition."""

from pathlib import Path
from uuid import UUID

from kafkad.adapters.files.log_directory import LogDirectory, write_partition_metadata
from kafkad.adapters.files.moved_directory import MOVED_FROM
from kafkad.core.controller.startup.reconciliation import FoundDirectory
from kafkad.processes.controller.interrupted_moves import without_sources
from kafkad.processes.controller.log_dirs import scan

TOPIC_ID = UUID(int=5)


def two_directories(tmp_path: Path, *, marks: str | None, other_id: UUID = TOPIC_ID) -> list[LogDirectory]:
    directories = []
    for name, topic_id in (("one", TOPIC_ID), ("two", other_id)):
        directories.append(LogDirectory(tmp_path / name))
        (tmp_path / name / "t-0").mkdir()
        write_partition_metadata(tmp_path / name / "t-0", topic_id)
    if marks is not None:
        (tmp_path / "two" / "t-0" / MOVED_FROM).write_text(marks)
    return directories


def found(directories: list[LogDirectory]) -> list[FoundDirectory]:
    return [each for at, one in enumerate(directories) for each in scan(at, one.path, lambda *_: True)]


def settle(directories: list[LogDirectory], *, is_first: bool = True) -> list[int]:
    kept = without_sources(found(directories), directories, is_first_incarnation=is_first)
    for each in directories:
        each.close()
    return [each.log_dir for each in kept]


def names(directory: LogDirectory) -> list[str]:
    return [each.name for each in directory.path.iterdir() if each.is_dir()]


def test_the_directory_that_says_where_it_came_from_counts(tmp_path: Path) -> None:
    directories = two_directories(tmp_path, marks=str(tmp_path / "one"))
    assert settle(directories) == [1]
    (left,) = names(directories[0])
    assert left.startswith("t-0.") and left.endswith("-delete")
    assert not (tmp_path / "two" / "t-0" / MOVED_FROM).exists()


def test_while_the_broker_lives_its_workers_remove_the_other(tmp_path: Path) -> None:
    directories = two_directories(tmp_path, marks=str(tmp_path / "one"))
    assert settle(directories, is_first=False) == [1]
    assert names(directories[0]) == ["t-0"]
    assert (tmp_path / "two" / "t-0" / MOVED_FROM).exists()


def test_two_directories_of_which_none_was_moved_are_for_the_operator_to_judge(tmp_path: Path) -> None:
    assert settle(two_directories(tmp_path, marks=None)) == [0, 1]
    for path in (tmp_path / "one", tmp_path / "two"):
        assert (path / "t-0").exists()


def test_a_mark_of_an_earlier_move_says_nothing(tmp_path: Path) -> None:
    assert settle(two_directories(tmp_path, marks="/elsewhere")) == [0, 1]


def test_directories_of_two_topics_are_not_settled(tmp_path: Path) -> None:
    assert settle(two_directories(tmp_path, marks=str(tmp_path / "one"), other_id=UUID(int=6))) == [0, 1]


def test_two_directories_that_both_say_so_are_for_the_operator_to_judge(tmp_path: Path) -> None:
    directories = two_directories(tmp_path, marks=str(tmp_path / "one"))
    (tmp_path / "one" / "t-0" / MOVED_FROM).write_text(str(tmp_path / "two"))
    assert settle(directories) == [0, 1]
    assert [names(each) for each in directories] == [["t-0"], ["t-0"]]
