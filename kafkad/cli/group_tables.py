"""The tables of groups, equal to those of kafka-consumer-groups.sh (Apache Kafka 4.3)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kafkad.client.group_commits import Partition
from kafkad.client.groups import GroupDescription, ListedGroup, MemberDescription

_MISSING = "-"


class OffsetRow(NamedTuple):
    """One partition of a group, with the member that reads it; missing values are None."""

    group: str
    topic: str | None
    partition: int | None
    current_offset: int | None
    log_end_offset: int | None
    member: MemberDescription | None

    @property
    def lag(self) -> int | None:
        if self.current_offset is None or self.log_end_offset is None:
            return None
        return self.log_end_offset - self.current_offset


def offset_rows(
    group: GroupDescription, committed: Mapping[Partition, int], ends: Mapping[Partition, int]
) -> list[OffsetRow]:
    """The partitions of members, beginning with the member with most partitions, then partitions without a member.

    `ends` lacks deleted topics.
    """
    rows: list[OffsetRow] = []
    assigned: set[Partition] = set()
    for member in sorted(group.members, key=lambda each: -len(each.partitions)):
        assigned.update(member.partitions)
        rows += _rows_of(group, member, member.partitions, committed, ends)
        if not member.partitions:
            rows.append(OffsetRow(group.group_id, None, None, None, None, member))
    rows += _rows_of(group, None, [each for each in committed if each not in assigned], committed, ends)
    return rows


def _rows_of(
    group: GroupDescription,
    member: MemberDescription | None,
    partitions: Sequence[Partition],
    committed: Mapping[Partition, int],
    ends: Mapping[Partition, int],
) -> Iterator[OffsetRow]:
    for topic, partition in sorted(partitions):
        key = (topic, partition)
        yield OffsetRow(group.group_id, topic, partition, committed.get(key), ends.get(key), member)


def listing_lines(groups: Sequence[ListedGroup], *, with_state: bool) -> list[str]:
    if not with_state:
        return [each.group_id for each in groups]
    rows = [("GROUP", "TYPE", "STATE"), *((each.group_id, each.type, each.state) for each in groups)]
    width = max([15, *(len(each.group_id) for each in groups)]) + 10
    return [f"{name:<{width}} {kind:<20} {state:<20}" for name, kind, state in rows]


def offset_lines(rows: Sequence[OffsetRow]) -> list[str]:
    head = (
        "GROUP",
        "TOPIC",
        "PARTITION",
        "CURRENT-OFFSET",
        "LOG-END-OFFSET",
        "LAG",
        "CONSUMER-ID",
        "HOST",
        "CLIENT-ID",
    )
    body = [
        (
            row.group,
            _text(row.topic),
            _text(row.partition),
            _text(row.current_offset),
            _text(row.log_end_offset),
            _text(row.lag),
            row.member.member_id if row.member else _MISSING,
            row.member.host if row.member else _MISSING,
            row.member.client_id if row.member else _MISSING,
        )
        for row in rows
    ]
    return ["", *_table([head, *body], least=(15, 15, 10, 15, 15, 15, 15, 15), growing=(0, 1, 6, 7))]


def member_lines(group: GroupDescription) -> list[str]:
    with_instance = any(each.instance_id for each in group.members)
    rows = [("GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS", "")]
    for each in sorted(group.members, key=lambda each: -len(each.partitions)):
        count = str(len(each.partitions))
        rows.append((group.group_id, each.member_id, each.instance_id or "", each.host, each.client_id, count, ""))
    least = [15, 15, 17, 15, 15, 15]
    columns = [column for column in range(len(rows[0])) if with_instance or column != 2]
    table = [[row[column] for column in columns] for row in rows]
    return ["", *_table(table, least=[least[column] for column in columns[:-1]], growing=range(len(columns) - 2))]


def state_lines(group: GroupDescription) -> list[str]:
    host, port, broker_id = group.coordinator
    head = ("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS")
    place = f"{host}:{port}  ({broker_id})"
    row = (group.group_id, place, group.strategy or _MISSING, group.state, str(len(group.members)))
    return ["", *_table([head, row], least=(15, 25, 20, 20), growing=(0, 1))]


def reset_lines(group_id: str, offsets: Mapping[Partition, int]) -> list[str]:
    rows = [(group_id, topic, str(partition), str(offset)) for (topic, partition), offset in sorted(offsets.items())]
    return ["", *_table([("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"), *rows], least=(15, 15, 10), growing=(0, 1))]


def deletion_lines(group_id: str, partitions: Sequence[Partition]) -> list[str]:
    rows = [(topic, str(partition), "Successful", "") for topic, partition in partitions]
    table = _table([("TOPIC", "PARTITION", "STATUS", ""), *rows], least=(15, 10, 15), growing=(0,))
    return [f"Request succeeded for deleting offsets from group {group_id}.", "", *(line[:-1] for line in table)]


def _table(rows: Sequence[Sequence[str]], *, least: Sequence[int], growing: Sequence[int]) -> list[str]:
    """Columns of the widths `least`; those in `growing` may be wider. Later columns are not padded."""
    widths = [
        max(width, *(len(row[column]) for row in rows)) if column in growing else width
        for column, width in enumerate(least)
    ]
    return [
        " ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), *row[len(widths) :]])
        for row in rows
    ]


def _text(value: object) -> str:
    return _MISSING if value is None else str(value)
