"""Members that no broker should be troubled by: they vanish, are too many or too large, or say who they are not.

One real broker has them all, with connections that are closed and thousands of groups at once.
"""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from bench.brokers.daemon import Kafkad
from bench.brokers.processes import eventually
from kafkad.core.errors import ErrorCode
from tests.daemon.group_client import GroupClient, patiently
from tests.tools.raw_requests import RawClient, create_topic

MANY = 3_000
SESSION_MS = 1_000
"""Of who vanishes; those who stay have long ones, as no pause of the machine may end them."""
_SESSION = timedelta(milliseconds=60_000)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafkad]:
    overrides = {
        "offsets.topic.num.partitions": "4",
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "500",
    }
    with Kafkad(tmp_path_factory.mktemp("groups"), overrides) as broker:
        with RawClient(broker.port) as raw:
            raw.ask(create_topic("orders", 1))
        with GroupClient(broker.port) as client:
            client.find("any")
            for group in (str(number) for number in range(40)):
                patiently(lambda group=group: client.commit(group, {("orders", 0): 0}))  # type: ignore[misc]
        yield broker


@pytest.fixture
def client(broker: Kafkad) -> Iterator[GroupClient]:
    with GroupClient(broker.port) as client:
        yield client


def alone(client: GroupClient, group: str, *, metadata: bytes = b"s", session_ms: int = 60_000) -> tuple[str, int]:
    """A group of one, stable; the member and the generation."""
    joined = client.join(group, protocol=metadata, session_ms=session_ms)
    assert joined.error_code == ErrorCode.NONE
    synced = client.sync(group, joined.generation_id, joined.member_id, {joined.member_id: b"all"})
    assert synced.error_code == ErrorCode.NONE
    return joined.member_id, joined.generation_id


def test_member_that_joins_and_vanishes_holds_nobody_up_for_longer_than_its_session(
    broker: Kafkad, client: GroupClient
) -> None:
    member, generation = alone(client, "vanishing")
    with GroupClient(broker.port) as gone:
        gone.send_join("vanishing", session_ms=SESSION_MS)
        eventually(
            lambda: client.heartbeat("vanishing", generation, member) is ErrorCode.REBALANCE_IN_PROGRESS,
            what="the newcomer is noticed",
        )
    joined = client.join("vanishing", member, session_ms=60_000)
    assert len(joined.members) == 2
    client.sync("vanishing", joined.generation_id, member, {})
    eventually(
        lambda: client.heartbeat("vanishing", joined.generation_id, member) is ErrorCode.REBALANCE_IN_PROGRESS,
        what="the session of who vanished ends",
    )
    assert len(client.join("vanishing", member, session_ms=60_000).members) == 1


def test_thousands_of_groups_at_once_are_all_coordinated(client: GroupClient) -> None:
    """Each with a member that joins, is assigned, commits and leaves, all pipelined on one connection."""
    groups = [f"many-{number}" for number in range(MANY)]
    for group in groups:
        client.send_join(group, session_ms=60_000)
    members = [client.receive() for _ in groups]
    assert {int(each.error_code) for each in members} == {0}
    for group, each in zip(groups, members, strict=True):
        client.send_sync(group, each.generation_id, each.member_id, {each.member_id: group.encode()})
    assert [client.receive().assignment.decode() for _ in groups] == groups
    code, states = client.list_groups()
    assert code is ErrorCode.NONE
    assert all(states[group] == "Stable" for group in groups)
    for group, each in zip(groups, members, strict=True):
        assert client.leave(group, each.member_id) is ErrorCode.NONE


def test_commits_of_strangers_and_of_old_generations_change_nothing(client: GroupClient) -> None:
    member, generation = alone(client, "strangers")
    rows = {("orders", 0): 5}
    assert client.commit("strangers", rows, generation, member) is ErrorCode.NONE
    wrong = {("orders", 0): 99}
    assert client.commit("strangers", wrong) is ErrorCode.UNKNOWN_MEMBER_ID
    assert client.commit("strangers", wrong, generation, "somebody") is ErrorCode.UNKNOWN_MEMBER_ID
    assert client.commit("strangers", wrong, generation - 1, member) is ErrorCode.ILLEGAL_GENERATION
    assert client.commit("strangers", wrong, generation + 1, member) is ErrorCode.ILLEGAL_GENERATION
    assert client.commit("no such group", wrong, 1, member) is ErrorCode.ILLEGAL_GENERATION
    assert client.fetch_offsets("strangers")["strangers"] == (ErrorCode.NONE, rows)


def test_metadata_of_a_megabyte_costs_its_group_the_assignment_and_nobody_else_anything(client: GroupClient) -> None:
    """The record would be larger than a batch may be: the leader hears so, and tries again as long as it likes."""
    joined = client.join("large", protocol=bytes(1 << 20), session_ms=60_000)
    assert joined.error_code == ErrorCode.NONE
    synced = client.sync("large", joined.generation_id, joined.member_id, {})
    assert synced.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert client.heartbeat("large", joined.generation_id, joined.member_id) is ErrorCode.REBALANCE_IN_PROGRESS
    alone(client, "small")
    smaller = client.join("large", joined.member_id, session_ms=60_000)
    synced = client.sync("large", smaller.generation_id, smaller.member_id, {smaller.member_id: b"all"})
    assert (synced.error_code, synced.assignment) == (ErrorCode.NONE, b"all")


def test_metadata_that_fits_comes_back_whole(client: GroupClient) -> None:
    metadata = bytes(range(256)) * 2_000
    member, _ = alone(client, "fits", metadata=metadata)
    (described,) = client.describe("fits")["fits"].members
    assert (described.member_id, described.member_metadata) == (member, metadata)


def test_two_members_with_one_instance_id_are_told_apart(broker: Kafkad, client: GroupClient) -> None:
    def join(on: GroupClient, member: str = "") -> None:
        on.send(
            "join_group",
            5,
            lambda api: {
                "group_id": "static",
                "session_timeout": _SESSION,
                "rebalance_timeout": _SESSION,
                "member_id": member,
                "group_instance_id": "one",
                "protocol_type": "consumer",
                "protocols": (api.part("JoinGroupRequestProtocol", name="range", metadata=b"s"),),
            },
        )

    join(client)
    first = client.receive()
    client.sync("static", first.generation_id, first.member_id, {first.member_id: b"all"})
    with GroupClient(broker.port) as other:
        join(other)
        second = other.receive()
        assert second.generation_id == first.generation_id
        assert second.member_id != first.member_id
    join(client, first.member_id)
    assert client.receive().error_code == ErrorCode.FENCED_INSTANCE_ID
    assert client.heartbeat("static", first.generation_id, second.member_id) is ErrorCode.NONE


def test_names_may_be_of_any_characters(client: GroupClient) -> None:
    for group in ("ünïcödé", "a\nb", "x" * 30_000, " "):
        member, generation = alone(client, group)
        assert client.heartbeat(group, generation, member) is ErrorCode.NONE
        assert client.leave(group, member) is ErrorCode.NONE
