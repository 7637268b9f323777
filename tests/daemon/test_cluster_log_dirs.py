"""A log directory of a broker in a cluster fails or has no room: others lead what is in it, and the broker goes on.

It needs real brokers: a directory of files fails, and one broker starts again with it; real disks are measured.
"""

import re
from itertools import count
from pathlib import Path

from kafka.admin import ConfigResource, ConfigResourceType  # type: ignore[import-untyped]

from tests.daemon.shared_cluster import SharedCluster


def leaders_in(directory: Path, topic: str, first: int, second: int) -> list[int]:
    """Who leads when the second leads what is in the directory, and the first the rest."""
    return [second if (directory / f"{topic}-{index}").is_dir() else first for index in range(3)]


def even_out(cluster: SharedCluster) -> None:
    """As many partitions in either log directory of broker 1: new ones go to both."""
    names = [[path.name for path in (cluster.brokers[1].folder / each).iterdir()] for each in ("one", "two")]
    one, two = (sum(re.fullmatch(r".+-\d+", name) is not None for name in each) for each in names)
    if one != two:
        cluster.create_led(3, f"{cluster.topic}-filler", {index: [1] for index in range(abs(one - two))})


def test_others_lead_what_is_in_a_directory_that_fails(cluster: SharedCluster) -> None:
    topic = cluster.topic
    even_out(cluster)
    cluster.create_led(3, topic, {0: [1, 2, 3], 1: [1, 2, 3], 2: [1, 2, 3]})
    cluster.produce(2, range(300))
    failing = cluster.brokers[1].folder / "two"
    expected = leaders_in(failing, topic, 1, 2)
    assert set(expected) == {1, 2}
    away = failing.with_name("away")
    failing.rename(away)
    failing.write_text("no directory")
    cluster.produce(2, range(300, 600))
    cluster.wait_until(lambda: cluster.leaders(3, topic) == expected, "others lead what was in it")
    cluster.wait_until(
        lambda: cluster.in_sync(3, topic) == [{1, 2, 3} if each == 1 else {2, 3} for each in expected],
        "its replicas there are out of sync",
    )
    offline: list[set[int]] = [set() if each == 1 else {1} for each in expected]
    cluster.wait_until(
        lambda: [cluster.offline(each, topic) for each in (1, 2, 3)] == [offline] * 3, "every broker names them"
    )
    cluster.produce(3, range(600, 900))
    cluster.brokers[1].stop()
    failing.unlink()
    away.rename(failing)
    cluster.brokers[1].start()
    cluster.wait_until(lambda: cluster.in_sync(3, topic) == [{1, 2, 3}] * 3, "it has caught up with the directory back")
    cluster.wait_until(
        lambda: [cluster.offline(each, topic) for each in (1, 2, 3)] == [[set(), set(), set()]] * 3, "none is offline"
    )
    assert cluster.consume(1, "g", 900) == sorted(range(900))


def test_others_lead_while_a_broker_has_no_room_and_it_leads_again_afterwards(cluster: SharedCluster) -> None:
    """More free room is demanded of broker 1 than its disk has. What full disks do to files: test_full_disk.py."""
    topic = cluster.topic
    cluster.create_led(3, topic, {0: [1, 2, 3], 1: [2, 3, 1], 2: [1, 3, 2]})
    sent = count(0, 30)
    demand_room(cluster, 1, 1 << 60)

    def others_lead() -> bool:
        """A disk is measured after appends, once a second."""
        first = next(sent)
        cluster.produce(2, range(first, first + 30))
        return cluster.leaders(3, topic) == [2, 2, 3]

    cluster.wait_until(others_lead, "others lead")
    cluster.wait_until(lambda: cluster.in_sync(3, topic) == [{1, 2, 3}] * 3, "broker 1 follows them")
    cluster.wait_until(
        lambda: [cluster.offline(each, topic) for each in (1, 2, 3)] == [[{1}, set(), {1}]] * 3, "every broker knows"
    )
    demand_room(cluster, 1, 0)
    cluster.wait_until(
        lambda: [cluster.offline(each, topic) for each in (1, 2, 3)] == [[set(), set(), set()]] * 3, "it has room again"
    )
    cluster.elect_preferred_leaders(2)
    cluster.wait_until(lambda: cluster.leaders(3, topic) == [1, 2, 1], "it leads again")
    total = next(sent)
    cluster.produce(2, range(total, total + 30))
    assert cluster.consume(1, "g", total + 30) == list(range(total + 30))


def demand_room(cluster: SharedCluster, broker: int, free_bytes: int) -> None:
    configs = {"kafkad.log.dirs.min.free.bytes": str(free_bytes)}
    resource = ConfigResource(ConfigResourceType.BROKER, str(broker), configs=configs)
    cluster.response(broker, lambda client: client.alter_configs([resource]))
