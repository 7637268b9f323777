"""`kafkad groups`: tables as kafka-consumer-groups prints them, and what is wrong usage."""

import pytest
from click.testing import CliRunner

from kafkad.cli import main
from kafkad.cli.group_tables import (
    deletion_lines,
    listing_lines,
    member_lines,
    offset_lines,
    offset_rows,
    reset_lines,
    state_lines,
)
from kafkad.cli.resetting import milliseconds_of, parse_topics
from kafkad.client.groups import GroupDescription, ListedGroup, MemberDescription


def _member(name: str, *partitions: tuple[str, int], instance_id: str | None = None) -> MemberDescription:
    return MemberDescription(
        member_id=name, instance_id=instance_id, client_id="app", host="/10.0.0.1", partitions=partitions
    )


def _group(*members: MemberDescription) -> GroupDescription:
    return GroupDescription(
        group_id="billing", state="Stable", strategy="range", coordinator=("10.0.0.9", 9092, 1), members=members
    )


def test_offsets_are_shown_by_member_the_busiest_first_and_then_what_nobody_reads() -> None:
    group = _group(_member("idle"), _member("few", ("b", 0)), _member("many", ("a", 1), ("a", 0)))
    committed = {("a", 0): 5, ("a", 1): 7, ("old", 3): 1}
    ends = {("a", 0): 9, ("a", 1): 7, ("b", 0): 4}
    rows = offset_rows(group, committed, ends)
    shown = [(row.topic, row.partition, row.current_offset, row.log_end_offset, row.lag) for row in rows]
    assert shown == [
        ("a", 0, 5, 9, 4),
        ("a", 1, 7, 7, 0),
        ("b", 0, None, 4, None),
        (None, None, None, None, None),
        ("old", 3, 1, None, None),
    ]
    assert [row.member.member_id if row.member else None for row in rows] == ["many", "many", "few", "idle", None]


def test_offsets_have_the_layout_of_kafka_consumer_groups() -> None:
    rows = offset_rows(_group(_member("a-rather-long-member-id", ("a", 0))), {("a", 0): 5, ("b", 1): 2}, {("a", 0): 9})
    assert offset_lines(rows) == [
        "",
        "GROUP           TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG             "
        "CONSUMER-ID             HOST            CLIENT-ID",
        "billing         a               0          5               9               4               "
        "a-rather-long-member-id /10.0.0.1       app",
        "billing         b               1          2               -               -               "
        "-                       -               -",
    ]


@pytest.mark.parametrize("instance_id", [None, "static-1"])
def test_members_have_the_layout_of_kafka_consumer_groups(instance_id: str | None) -> None:
    column = ("GROUP-INSTANCE-ID ", "static-1          ") if instance_id else ("", "")
    assert member_lines(_group(_member("m", ("a", 0), ("a", 1), instance_id=instance_id))) == [
        "",
        f"GROUP           CONSUMER-ID     {column[0]}HOST            CLIENT-ID       #PARTITIONS     ",
        f"billing         m               {column[1]}/10.0.0.1       app             2               ",
    ]


def test_state_has_the_layout_of_kafka_consumer_groups() -> None:
    assert state_lines(_group(_member("m"))) == [
        "",
        "GROUP           COORDINATOR (ID)          ASSIGNMENT-STRATEGY  STATE                #MEMBERS",
        "billing         10.0.0.9:9092  (1)        range                Stable               1",
    ]


def test_list_shows_ids_or_a_table() -> None:
    groups = [ListedGroup("billing", "Classic", "consumer", "Empty")]
    assert listing_lines(groups, with_state=False) == ["billing"]
    assert listing_lines(groups, with_state=True) == [
        "GROUP                     TYPE                 STATE               ",
        "billing                   Classic              Empty               ",
    ]


def test_new_offsets_have_the_layout_of_kafka_consumer_groups() -> None:
    assert reset_lines("billing", {("orders", 1): 7, ("orders", 0): 5}) == [
        "",
        "GROUP           TOPIC           PARTITION  NEW-OFFSET",
        "billing         orders          0          5",
        "billing         orders          1          7",
    ]


def test_deleted_offsets_have_the_layout_of_kafka_consumer_groups() -> None:
    assert deletion_lines("billing", [("orders", 0), ("orders", 12)]) == [
        "Request succeeded for deleting offsets from group billing.",
        "",
        "TOPIC           PARTITION  STATUS         ",
        "orders          0          Successful     ",
        "orders          12         Successful     ",
    ]


def test_topics_may_name_their_partitions() -> None:
    assert parse_topics(["orders", "payments:0,12"]) == [("orders", None), ("payments", [0, 12])]


def test_times_are_utc_unless_they_say_where() -> None:
    assert milliseconds_of("2026-01-31T12:00:00.250") == 1_769_860_800_250
    assert milliseconds_of("2026-01-31T13:00:00.250+01:00") == 1_769_860_800_250
    assert milliseconds_of("2026-01-31T12:00:00.250Z") == 1_769_860_800_250


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "expected --topic or --all-topics"),
        (["--topic", "t", "--all-topics", "--to-latest"], "expected --topic or --all-topics"),
        (["--topic", "t"], "expected one of"),
        (["--topic", "t", "--to-latest", "--shift-by", "0"], "expected one of"),
        (["--topic", "t:x", "--to-latest"], "expected TOPIC"),
        (["--topic", ":1", "--to-latest"], "expected TOPIC"),
        *(
            (
                ["--topic", "t", "--to-datetime", time],
                f"expected a time like 2026-01-31T12:00:00.000 from 1970 on, found '{time}'",
            )
            for time in (
                *("0001-01-01", "0001-01-01T00:00:00+14:00", "1969-12-31T23:59:59.999", "9999-12-31T23:59:59-14:00x"),
                *("10000-01-01", "soon", ""),
            )
        ),
    ],
)
def test_reset_that_does_not_say_what_and_where_is_wrong_usage(arguments: list[str], said: str) -> None:
    outcome = CliRunner().invoke(main, ["groups", "reset-offsets", "billing", *arguments])
    assert outcome.exit_code == 2
    assert said in outcome.stderr
