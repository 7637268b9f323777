"""Replicas in a cluster go to another log directory of their broker, by the command, while clients write.

It needs real brokers, which are killed, their directories, and a command.
"""

from pathlib import Path

from click.testing import CliRunner

from kafkad.cli import main
from tests.daemon.cluster import rotated
from tests.daemon.shared_cluster import SharedCluster

RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


def places(folder: Path, name: str) -> list[str]:
    return [each for each in ("one", "two") if (folder / each / name).is_dir()]


def other(folder: Path, name: str) -> Path:
    (here,) = places(folder, name)
    return folder / ("two" if here == "one" else "one")


def move(cluster: SharedCluster, number: int, name: str, *more: str) -> tuple[int, str, Path]:
    target = other(cluster.brokers[number].folder, name)
    bootstrap = cluster.brokers[number].bootstrap
    arguments = ["log-dirs", "move", name, "--to", str(target), "--bootstrap-server", bootstrap, *more]
    done = CliRunner().invoke(main, arguments)
    return done.exit_code, done.output, target


def test_the_replicas_of_leaders_and_followers_are_moved(cluster: SharedCluster) -> None:
    topic, moved = cluster.topic, f"{cluster.topic}-0"
    cluster.create_led(3, topic, rotated(1, 2, 3))
    cluster.produce(1, range(300))
    for number in (1, 2):
        code, said, target = move(cluster, number, moved)
        assert (code, said) == (0, f"{moved} is in {target}.\n")
        cluster.wait_until(
            lambda at=number, to=target: places(cluster.brokers[at].folder, moved) == [to.name],  # type: ignore[misc]
            "the old directory is gone",
        )
        cluster.produce(2, range(300 * number, 300 * (number + 1)))
    cluster.wait_until(lambda: cluster.in_sync(3, topic) == [{1, 2, 3}] * 3, "all replicas are in sync")
    assert cluster.consume(1, "g", 900) == sorted(range(900))
    cluster.brokers[1].kill()
    cluster.wait_until(lambda: cluster.leaders(3, topic)[0] != 1, "another one leads")
    cluster.brokers[1].start()
    cluster.wait_until(lambda: cluster.in_sync(3, topic) == [{1, 2, 3}] * 3, "its replicas are found where they are")
    assert len(places(cluster.brokers[1].folder, moved)) == 1
