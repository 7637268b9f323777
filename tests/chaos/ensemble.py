"""Three ZooKeeper servers, each on a host of its own, which elect a leader: to brokers, what one server is."""

from pathlib import Path

from bench.brokers.zookeeper import ZookeeperServer
from tests.chaos.network import Network

_TICKS = "initLimit=50\nsyncLimit=20\n"
"""Ten seconds to join, four to answer: the machine is busy."""


class Ensemble:
    """`servers` by the name of their host."""

    def __init__(self, folder: Path, network: Network, hosts: tuple[str, ...]) -> None:
        addresses = [network.address(host) for host in hosts]
        lines = [f"server.{number}={address}:2888:3888\n" for number, address in enumerate(addresses, 1)]
        self.servers: dict[str, ZookeeperServer] = {}
        for number, host in enumerate(hosts, 1):
            data = folder / host / "data"
            data.mkdir(parents=True)
            (data / "myid").write_text(str(number))
            self.servers[host] = ZookeeperServer(
                folder / host, network.address(host), network.on(host), members=_TICKS + "".join(lines)
            )
        for server in self.servers.values():
            server.wait_until_serving()

    @property
    def hosts(self) -> str:
        return ",".join(server.hosts for server in self.servers.values())

    def leader(self) -> tuple[str, ZookeeperServer] | None:
        """None: they are electing one."""
        return next(((host, server) for host, server in self.servers.items() if server.leads), None)

    def pause(self) -> None:
        for server in self.servers.values():
            server.pause()

    def resume(self) -> None:
        for server in self.servers.values():
            server.resume()

    def stop(self) -> None:
        for server in self.servers.values():
            server.stop()
