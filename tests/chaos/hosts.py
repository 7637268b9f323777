"""A cluster each broker of which, and each ZooKeeper, has a host of its own: a network address, and of brokers a small
disk and a clock.
"""

import json
import os
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from errno import ENOSPC
from pathlib import Path

from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from tests.chaos.ensemble import Ensemble
from tests.chaos.network import Network
from tests.daemon.cluster import Transactional
from tests.daemon.cluster_broker import SHORT_SESSION_MS, KafkadInCluster

ZOOKEEPERS = ("zookeeper-1", "zookeeper-2", "zookeeper-3")
DISK_MB = 1_024
ASKED_S = 5.0
_CHUNKS = (64 << 20, 1 << 20, 4096)
_CLOCK = Path(__file__).parent / "clock"


class HostedBroker(KafkadInCluster):
    def __init__(self, folder: Path, settings: Mapping[str, str], network: Network) -> None:
        super().__init__(folder, settings)
        self.host = network.address(folder.name)
        self._on_host = network.on(folder.name)
        self.log_dir = folder / "disk" / "data"
        self._disk = folder / "disk"
        self._filler = self._disk / "filler"
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
        size = 0
        with self._filler.open("wb") as file:
            for chunk in _CHUNKS:
                while _is_given(file.fileno(), size, chunk):
                    size += chunk

    def empty_disk(self) -> None:
        self._filler.unlink()

    def freeze_disk(self) -> None:
        """Who writes waits, uninterruptibly, until it is thawed."""
        subprocess.run(["fsfreeze", "--freeze", str(self._disk)], check=True)

    def thaw_disk(self) -> None:
        subprocess.run(["fsfreeze", "--unfreeze", str(self._disk)], check=True)

    @property
    def has_ended(self) -> bool:
        return self._process is None or self._process.poll() is not None


def _is_given(file: int, offset: int, size: int) -> bool:
    try:
        os.posix_fallocate(file, offset, size)
    except OSError as full:
        if full.errno != ENOSPC:
            raise
        return False
    return True


class HostedCluster(Transactional):
    def __init__(self, folder: Path, ends: ExitStack) -> None:
        self._ends = ends
        self.network = Network([*ZOOKEEPERS, "1", "2", "3"], ends)
        super().__init__(folder, ends)
        self.hosted = {name: broker for name, broker in self.brokers.items() if isinstance(broker, HostedBroker)}

    def settings(self) -> dict[str, str]:
        return {**super().settings(), "zookeeper.session.timeout.ms": str(SHORT_SESSION_MS)}

    def active_controller(self) -> int | None:
        """As ZooKeeper has it; None: nobody is, or it can't be asked."""
        with suppress(KazooException, KazooTimeoutError):
            data, _ = self.zookeeper.get_async("/controller").get(timeout=ASKED_S)
            return int(json.loads(data)["brokerid"])
        return None

    def zookeeper_in(self, folder: Path) -> Ensemble:
        self.ensemble = Ensemble(folder, self.network, ZOOKEEPERS)
        return self.ensemble

    def broker_in(self, folder: Path, settings: dict[str, str]) -> KafkadInCluster:
        """Its disk is a file, which is gone when it is unmounted."""
        disk, image = folder / "disk", folder / "image"
        disk.mkdir(parents=True)
        with image.open("wb") as file:
            file.truncate(DISK_MB << 20)
        subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", str(image)], check=True)
        subprocess.run(["mount", "-o", "loop", str(image), str(disk)], check=True)
        image.unlink()
        self._ends.callback(subprocess.run, ["umount", "--lazy", str(disk)], check=True)
        return HostedBroker(folder, settings, self.network)
