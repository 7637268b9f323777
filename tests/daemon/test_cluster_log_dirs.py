"""A log directory of a broker in a cluster fails: others lead what is in it, and the broker goes on with the rest.

It needs real brokers: a directory of files fails, and one broker starts again with it.
"""

from pathlib import Path

from tests.daemon.shared_cluster import SharedCluster


def leaders_in(directory: Path, topic: str, first: int, second: int) -> list[int]:
    """Who leads when the second leads what is in the directory, and the first the rest."""
    return [second if (directory / f"{topic}-{index}").is_dir() else first for index in range(3)]


def test_others_lead_what_is_in_a_directory_that_fails(cluster: SharedCluster) -> None:
    topic = cluster.topic
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
