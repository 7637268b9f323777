"""`kafkad log-dirs describe`: what its tables say."""

from kafkad.cli.commands.log_dirs import directory_lines, partition_lines
from kafkad.client.log_dirs import UNKNOWN, LogDirDescription, Replica

ROWS = [
    LogDirDescription(1, "/a", None, 1000, 400, (Replica("t", 0, 10, 0, False), Replica("u", 2, 30, 7, True))),
    LogDirDescription(1, "/b", "KAFKA_STORAGE_ERROR", UNKNOWN, UNKNOWN, ()),
]


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("\t")][:-1]


def test_directories_are_shown_with_what_is_in_them_and_their_room() -> None:
    assert [cells(line) for line in directory_lines(ROWS)[1:]] == [
        ["1", "/a", "2", "40", "400", "1000", "online"],
        ["1", "/b", "0", "0", "-", "-", "KAFKA_STORAGE_ERROR"],
    ]


def test_partitions_are_shown_with_where_they_are() -> None:
    assert [cells(line) for line in partition_lines(ROWS)[1:]] == [
        ["t", "0", "1", "/a", "10", "0", "no"],
        ["u", "2", "1", "/a", "30", "7", "yes"],
    ]
