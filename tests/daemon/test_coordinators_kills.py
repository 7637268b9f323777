"""SIGKILL to the worker of a group's coordinator, at each stage of what groups do: the same state by replay, nobody
waits for ever, and nothing that was acknowledged is lost."""

import threading
from collections.abc import Iterator

import pytest

from bench.brokers.daemon import Kafkad
from bench.brokers.processes import WITHIN_S, eventually, kill_all
from kafkad.core.coordinator.partitioning import partition_for
from kafkad.core.errors import ErrorCode
from tests.daemon.group_client import MOVING, GroupClient, patiently
from tests.tools.raw_requests import RawClient, create_topic

PARTITIONS = 4
GROUP = "g"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafkad]:
    """Two workers, so that half of the groups are not hit by a kill."""
    overrides = {
        "offsets.topic.num.partitions": str(PARTITIONS),
        "group.initial.rebalance.delay.ms": "0",
        "num.io.threads": "2",
        "num.network.threads": "2",
    }
    with Kafkad(tmp_path_factory.mktemp("coordinators"), overrides) as broker:
        with RawClient(broker.port) as raw, GroupClient(broker.port) as client:
            raw.ask(create_topic("t", 2))
            client.find(GROUP)
        yield broker
        assert "exiting: unexpected error" not in broker.output.read_text()


@pytest.fixture
def client(broker: Kafkad) -> Iterator[GroupClient]:
    with GroupClient(broker.port) as client:
        yield client


def kill_workers(broker: Kafkad) -> None:
    """All of them: whichever has the group is among them."""
    names = sorted(process.name for process in broker.tree()[1:])
    kill_all([process for process in broker.tree() if process.name.startswith("worker")])
    eventually(
        lambda: sorted(process.name for process in broker.tree()[1:]) == names,
        what="the workers run again",
    )


def committed(client: GroupClient, group: str) -> dict[tuple[str, int], int]:
    found: dict[tuple[str, int], int] = {}

    def ask() -> ErrorCode:
        code, offsets = client.fetch_offsets(group)[group]
        found.clear()
        found.update(offsets)
        return code

    assert patiently(ask) == ErrorCode.NONE
    return found


def member_of(client: GroupClient, group: str) -> tuple[str, int]:
    """A group with one member that has its assignment: (member id, generation)."""
    joined = client.join(group)
    assert int(joined.error_code) == 0
    synced = client.sync(group, joined.generation_id, joined.member_id, {joined.member_id: b"mine"})
    assert (int(synced.error_code), synced.assignment) == (0, b"mine")
    return joined.member_id, joined.generation_id


def test_a_commit_outlives_the_worker_that_took_it(broker: Kafkad, client: GroupClient) -> None:
    offsets = {("t", 0): 17, ("t", 1): 2**40}
    assert client.commit("commits", offsets) == ErrorCode.NONE
    kill_workers(broker)
    assert committed(client, "commits") == offsets


def test_a_member_goes_on_with_its_generation(broker: Kafkad, client: GroupClient) -> None:
    member, generation = member_of(client, "stable")
    kill_workers(broker)
    assert committed(client, "stable") == {}, "a heartbeat has no error before the group is loaded, too"
    assert client.heartbeat("stable", generation, member) == ErrorCode.NONE
    assert client.commit("stable", {("t", 0): 5}, generation, member) == ErrorCode.NONE
    described = client.describe("stable")["stable"]
    assert (described.group_state, [row.member_id for row in described.members]) == ("Stable", [member])


def test_whoever_waits_for_a_join_is_sent_away_and_comes_again(broker: Kafkad, client: GroupClient) -> None:
    member, generation = member_of(client, "joining")
    with GroupClient(broker.port) as second:
        second.send_join("joining")
        eventually(
            lambda: client.heartbeat("joining", generation, member) == ErrorCode.REBALANCE_IN_PROGRESS,
            what="the rebalance has begun",
        )
        kill_workers(broker)
        assert ErrorCode(int(second.receive().error_code)) in MOVING
        # Either connection may be of another network process, which hears later that the coordinator is back.
        for each in (client, second):
            assert committed(each, "joining") == {}, "a heartbeat has no error before the group is loaded, too"
            assert each.heartbeat("joining", generation, member) == ErrorCode.NONE, "as before it"
        second.send_join("joining")
        eventually(
            lambda: client.heartbeat("joining", generation, member) == ErrorCode.REBALANCE_IN_PROGRESS,
            what="the rebalance begins again",
        )
        first_joined, second_joined = client.join("joining", member), second.receive()
        assert (int(first_joined.error_code), int(second_joined.error_code)) == (0, 0)
        assert first_joined.generation_id == second_joined.generation_id > generation


def test_whoever_waits_for_an_assignment_is_sent_away_and_the_group_is_as_before(
    broker: Kafkad, client: GroupClient
) -> None:
    member, generation = member_of(client, "syncing")
    with GroupClient(broker.port) as second:
        second.send_join("syncing")
        eventually(
            lambda: client.heartbeat("syncing", generation, member) == ErrorCode.REBALANCE_IN_PROGRESS,
            what="the rebalance has begun",
        )
        leader = client.join("syncing", member)
        follower = second.receive()
        second.send_sync("syncing", follower.generation_id, follower.member_id, {})
        kill_workers(broker)
        assert ErrorCode(int(second.receive().error_code)) in MOVING
        # No assignment was written, so the generation that nobody finished never was.
        code = patiently(
            lambda: ErrorCode(
                int(client.sync("syncing", leader.generation_id, leader.member_id, {leader.member_id: b"x"}).error_code)
            )
        )
        assert code == ErrorCode.ILLEGAL_GENERATION
        assert client.heartbeat("syncing", generation, member) == ErrorCode.NONE
        assert client.heartbeat("syncing", generation, follower.member_id) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_deleted_group_stays_deleted(broker: Kafkad, client: GroupClient) -> None:
    assert client.commit("deleted", {("t", 0): 1}) == ErrorCode.NONE
    (row,) = client.ask("delete_groups", 1, groups_names=("deleted",)).results
    assert int(row.error_code) == 0
    kill_workers(broker)
    assert committed(client, "deleted") == {}
    assert "deleted" not in client.list_groups()[1]


def test_no_acknowledged_commit_goes_back(broker: Kafkad) -> None:
    """Twenty groups commit what they count, while workers die: what they are told is what is there."""
    groups = [f"count-{number}" for number in range(20)]
    assert len({partition_for(group, PARTITIONS) for group in groups}) == PARTITIONS
    acknowledged = dict.fromkeys(groups, 0)
    refused: set[ErrorCode] = set()
    stop = threading.Event()

    def count() -> None:
        with GroupClient(broker.port) as client:
            number = 0
            while not stop.is_set():
                number += 1
                for group in groups:
                    code = client.commit(group, {("t", 0): number})
                    if code == ErrorCode.NONE:
                        acknowledged[group] = number
                    else:
                        refused.add(code)

    counting = threading.Thread(target=count)
    counting.start()
    try:
        for _ in range(3):
            before = dict(acknowledged)
            eventually(
                lambda before=before: all(acknowledged[group] > before[group] + 20 for group in groups),  # type: ignore[misc]
                within=WITHIN_S,
                what="commits go on",
            )
            kill_workers(broker)
    finally:
        stop.set()
        counting.join()
    assert refused <= MOVING
    with GroupClient(broker.port) as client:
        for group in groups:
            assert committed(client, group)[("t", 0)] >= acknowledged[group], group


def test_requests_about_many_groups_reach_every_worker(client: GroupClient) -> None:
    groups = [f"many-{number}" for number in range(30)]
    for number, group in enumerate(groups):
        assert patiently(lambda group=group, number=number: client.commit(group, {("t", 0): number})) == ErrorCode.NONE  # type: ignore[misc]
    fetched = client.fetch_offsets(*groups)
    assert fetched == {group: (ErrorCode.NONE, {("t", 0): number}) for number, group in enumerate(groups)}
    assert {row.group_state for row in client.describe(*groups).values()} == {"Empty"}
    code, listed = client.list_groups()
    assert code == ErrorCode.NONE
    assert set(groups) <= listed.keys()
    results = client.ask("delete_groups", 2, groups_names=tuple(groups)).results
    assert {row.group_id: int(row.error_code) for row in results} == dict.fromkeys(groups, 0)
    assert not set(groups) & client.list_groups()[1].keys()


def test_a_stop_does_not_wait_for_members_that_wait(tmp_path_factory: pytest.TempPathFactory) -> None:
    overrides = {"offsets.topic.num.partitions": "1", "group.initial.rebalance.delay.ms": "600000"}
    with Kafkad(tmp_path_factory.mktemp("stopping"), overrides) as broker, GroupClient(broker.port) as client:
        client.find(GROUP)
        client.send_join(GROUP)
        eventually(lambda: _state_of(broker, GROUP) == "PreparingRebalance", what="the member waits")
        broker.stop()
        assert ErrorCode(int(client.receive().error_code)) == ErrorCode.COORDINATOR_NOT_AVAILABLE


def _state_of(broker: Kafkad, group: str) -> str:
    with GroupClient(broker.port) as client:
        return str(client.describe(group)[group].group_state)
