"""A cluster each broker of which, and its ZooKeeper, has a host of its own: a network address, and of brokers a small
disk and a clock.
"""

import subprocess
from collections.abc import Mapping
from contextlib import ExitStack
from errno import ENOSPC
from pathlib import Path

from bench.brokers.zookeeper import ZookeeperServer
from tests.chaos.network import Network
from tests.daemon.cluster_broker import KafkadInCluster
from tests.daemon.test_cluster_transactions import Transactional

ZOOKEEPER = "zookeeper"
DISK_MB = 1_024
_CHUNK = bytes(1 << 20)
_CLOCK = Path(__file__).parent / "clock"


class HostedBroker(KafkadInCluster):
    def __init__(self, folder: Path, settings: Mapping[str, str], network: Network) -> None:
        super().__init__(folder, settings)
        self.host = network.address(folder.name)
        self._on_host = network.on(folder.name)
        self.log_dir = folder / "disk" / "data"
        self._filler = folder / "disk" / "filler"
        self._clock = folder / "clock"
        self.set_clock(0)

    def command(self) -> list[str]:
        clock = ["env", f"PYTHONPATH={_CLOCK}", f"CHAOS_CLOCK={self._clock}"]
        return [*self._on_host, *clock, *super().command()]

    def set_clock(self, wrong_by_ms: int) -> None:
        """All processes of the broker see it at once."""
        with self._clock.open("r+b" if self._clock.exists() else "wb") as file:
            file.write(wrong_by_ms.to_bytes(8, "little", signed=True))

    def fill_disk(self) -> None:
        try:
            with self._filler.open("wb", buffering=0) as file:
                while file.write(_CHUNK) > 0:
                    pass
        except OSError as full:
            if full.errno != ENOSPC:
                raise

    def empty_disk(self) -> None:
        self._filler.unlink()

    @property
    def has_ended(self) -> bool:
        return self._process is None or self._process.poll() is not None


class HostedCluster(Transactional):
    def __init__(self, folder: Path, ends: ExitStack) -> None:
        self._ends = ends
        self.network = Network([ZOOKEEPER, "1", "2", "3"], ends)
        super().__init__(folder, ends)
        self.hosted = {name: broker for name, broker in self.brokers.items() if isinstance(broker, HostedBroker)}

    def zookeeper_in(self, folder: Path) -> ZookeeperServer:
        return ZookeeperServer(folder, self.network.address(ZOOKEEPER), self.network.on(ZOOKEEPER))

    def broker_in(self, folder: Path, settings: dict[str, str]) -> KafkadInCluster:
        disk = folder / "disk"
        disk.mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs", str(disk)], check=True)
        self._ends.callback(subprocess.run, ["umount", "--lazy", str(disk)], check=True)
        return HostedBroker(folder, settings, self.network)
