"""Three instances of the service on Debian's ZooKeeper, made as docs/cluster.md prints it after `apt install`."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent

from bench.brokers.processes import eventually
from bench.brokers.zookeeper import ZookeeperServer
from tests.package.companion import Companion
from tests.package.conftest import Boot
from tests.package.load import TOPIC
from tests.package.machine import CHECKOUT, Machine

PAGE = (CHECKOUT / "docs/cluster.md").read_text()
SECTION = re.search(r"## Three brokers on one host\n.*?```sh\n(.*?)```", PAGE, re.DOTALL)
HOSTS = re.search(r"## Three hosts\n.*?```properties\n(.*?)```.*?```sh\n(.*?)```.*?\n## ", PAGE, re.DOTALL)
assert SECTION is not None and HOSTS is not None
PRINTED = SECTION[1].partition("apt install zookeeperd\n")[2]
PROPERTIES, BEGIN = map(dedent, (HOSTS[1], HOSTS[2]))
"""Of one of the three hosts: its configuration, and what is done with it."""
BROKERS = {"1": 9093, "2": 9094, "3": 9095}
"""The ports by instance."""


@contextmanager
def serving_zookeeper(machine: Machine, folder: Path) -> Iterator[str]:
    """Debian's, of this machine and in the other's network, which has no way to a mirror. The brokers wait for it."""
    server = ZookeeperServer(folder, on_host=machine.beside(), members="\n")
    try:
        yield server.hosts
    finally:
        server.stop()


def in_sync(machine: Machine, port: int) -> list[set[str]]:
    """By partition of the load."""
    said = machine.run(f"kafkad topics describe {TOPIC} --bootstrap-server 127.0.0.1:{port}")
    return [set(each.split(",")) for each in re.findall(r"Isr: (\S*)", said)]


def test_rolling_restart_of_three_instances_under_load_loses_nothing(
    boot: Boot, installed_tree: Path, tmp_path: Path
) -> None:
    machine = boot(installed_tree)
    with serving_zookeeper(machine, tmp_path) as hosts:
        check_rolling_restart(machine, PRINTED.replace("127.0.0.1:2181", hosts))


def check_rolling_restart(machine: Machine, printed: str) -> None:
    machine.run(printed)
    ports = [str(port) for port in BROKERS.values()]
    with Companion(machine, "tests.package.load", *ports, first="producing") as load:
        for name, port in BROKERS.items():
            pid = machine.main_pid(f"kafkad@{name}")
            machine.run(f"systemctl restart kafkad@{name}")
            assert machine.main_pid(f"kafkad@{name}") != pid
            eventually(
                lambda port=port: all(each == BROKERS.keys() for each in in_sync(machine, port)),  # type: ignore[misc]
                what=f"all replicas are in sync after the restart of kafkad@{name}",
            )
        assert load.end().endswith("records")
    for name in BROKERS:
        assert machine.show("NRestarts", f"kafkad@{name}") == "0"
    assert machine.is_active(), "the single broker has no part in it"


def test_host_that_the_package_was_installed_on_joins_a_cluster(machine: Machine, tmp_path: Path) -> None:
    with serving_zookeeper(machine, tmp_path) as hosts:
        properties = PROPERTIES.replace("zk1:2181,zk2:2181,zk3:2181", hosts).replace("host1.example", "127.0.0.1")
        machine.run(f"cat >>/etc/kafkad/server.properties <<'END'\n{properties}END")
        machine.run(BEGIN)
        (row,) = machine.run("kafkad brokers list").splitlines()[1:]
        assert row.split()[:4] == ["1", "127.0.0.1:9092", "-", "yes"]
        machine.run("systemctl stop kafkad")
