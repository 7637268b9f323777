"""Numbers of brokers: ZooKeeper gives one to who has none (broker.id.generation.enable), and nobody has another's. Nor
has anybody another cluster's directories. It needs a real ZooKeeper that hands them out, and brokers that are refused.
"""

import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from bench.brokers.processes import WITHIN_S, eventually
from bench.brokers.zookeeper import ZookeeperServer
from tests.daemon.cluster_broker import KafkadInCluster


@pytest.fixture
def hosts(tmp_path: Path, zookeeper: ZookeeperServer) -> str:
    """A chroot of this test alone."""
    return f"{zookeeper.hosts}/of{tmp_path}"


def broker_of(folder: Path, hosts: str, **settings: str) -> KafkadInCluster:
    return KafkadInCluster(folder, {"zookeeper.connect": hosts, **settings})


def meta_properties(folder: Path, broker_id: int) -> None:
    folder.mkdir(parents=True)
    (folder / "meta.properties").write_text(f"version=0\nbroker.id={broker_id}\n")


def test_numbers_are_handed_out_and_kept(tmp_path: Path, hosts: str) -> None:
    with ExitStack() as ends:
        first = ends.enter_context(broker_of(tmp_path / "1", hosts))
        ends.enter_context(broker_of(tmp_path / "2", hosts, **{"broker.id": "-1"}))
        zookeeper = KazooClient(hosts)
        zookeeper.start()
        ends.callback(zookeeper.close)
        ends.callback(zookeeper.stop)

        def both_are_registered() -> bool:
            return set(zookeeper.get_children("/brokers/ids")) == {"1001", "1002"}

        eventually(both_are_registered, what="brokers 1001 and 1002 are registered")
        assert "broker.id=1001" in (first.log_dir / "meta.properties").read_text().splitlines()
        assert first.stop() == 0
        first.start()
        eventually(both_are_registered, what="it has its number again")
        assert zookeeper.get("/brokers/seqid")[1].version == 2, "nobody asked for another one"


def test_the_number_of_the_log_directory_counts_without_an_ensemble(tmp_path: Path) -> None:
    """Directories of two brokers are refused; nobody waits for ZooKeeper before."""
    meta_properties(tmp_path / "a", 7)
    meta_properties(tmp_path / "b", 8)
    broker = KafkadInCluster(
        tmp_path / "broker", {"zookeeper.connect": "127.0.0.1:1", "log.dirs": f"{tmp_path / 'a'},{tmp_path / 'b'}"}
    )
    done = subprocess.run(
        broker.command(), cwd=broker.working_folder, capture_output=True, text=True, timeout=WITHIN_S, check=False
    )
    assert done.returncode == 2
    assert f"{tmp_path / 'b'} belongs to broker 8, and {tmp_path / 'a'} to broker 7" in done.stderr


def test_a_number_and_an_address_that_another_broker_has_are_refused(tmp_path: Path, hosts: str) -> None:
    """In one line, before the broker says that it is ready, or that the log directory is that of this number."""
    with broker_of(tmp_path / "1", hosts, **{"broker.id": "1"}) as first:
        eventually(lambda: "is registered" in first.output.read_text(), what="broker 1 is registered")
        at = first.bootstrap
        asked = {
            "broker.id": ("1", f"broker 1 is registered already, at {at}: configure another broker.id"),
            "advertised.listeners": (
                f"PLAINTEXT://{at}",
                f"{at} is the address of broker 1 already: configure another address",
            ),
        }
        for name, (value, reason) in asked.items():
            second = broker_of(tmp_path / name, hosts, **{"broker.id": "2", name: value})
            command, folder = second.command(), second.working_folder
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=WITHIN_S, check=False)
            assert (done.returncode, done.stdout) == (2, "")
            assert done.stderr.endswith(f"] CRITICAL supervisor stopping the broker: controller-0: {reason}\n")
            assert len(done.stderr.splitlines()) == 1
            assert not (second.log_dir / "meta.properties").exists()


def test_directories_of_a_cluster_are_none_of_a_zookeeper_that_knows_none(tmp_path: Path, hosts: str) -> None:
    """A wrong path, or an ensemble that has lost its data: every replica would be set aside, as no topic names it."""
    broker = broker_of(tmp_path / "1", hosts, **{"broker.id": "1"})
    (broker.log_dir / "t-0").mkdir(parents=True)
    (broker.log_dir / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=of-before\n")
    done = subprocess.run(
        broker.command(), cwd=broker.working_folder, capture_output=True, text=True, timeout=WITHIN_S, check=False
    )
    assert done.returncode == 2
    assert f"{broker.log_dir} belongs to cluster of-before, and ZooKeeper to " in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert (broker.log_dir / "t-0").exists()
