"""What is replaced for brokers of a cluster besides what is for any: ZooKeeper, and sockets to others."""

import socket
import threading
from collections.abc import Callable, Mapping
from types import SimpleNamespace

from kafkad.processes.controller.store import zookeeper_sessions
from kafkad.processes.runtime import broker_connections
from kafkad.processes.supervisor import resources
from tests.simulation.broker import Broker
from tests.simulation.cluster.ensemble import Ensemble
from tests.simulation.cluster.network import Network
from tests.simulation.ports import Patch, Ports
from tests.simulation.scheduler import Scheduler
from tests.simulation.store_thread import Event


class _Timer:
    """What is only said is not played."""

    def __init__(self, *_: object) -> None:
        self.finished = threading.Event()

    def start(self) -> None: ...

    def cancel(self) -> None: ...


class _Listener(socket.socket):
    """What a supervisor takes for a socket that is bound; `Port` is where others knock."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__()
        self._address = host, port

    def getsockname(self) -> tuple[str, int]:
        return self._address


class ClusterPorts(Ports):
    """Those of all brokers of one run."""

    def __init__(self, scheduler: Scheduler, brokers: Callable[[], Mapping[int, Broker]]) -> None:
        super().__init__(scheduler)
        self.ensemble = Ensemble(self)
        self.network = Network(self, brokers)

    def patches(self) -> list[Patch]:
        sockets = SimpleNamespace(**{**vars(socket), "socket": self.network.open_socket})
        return [
            *super().patches(),
            (zookeeper_sessions, "ZookeeperStore", self.ensemble.open),
            (zookeeper_sessions, "threading", SimpleNamespace(Event=lambda: Event(self.scheduler), Timer=_Timer)),
            (broker_connections, "socket", sockets),
            (resources, "bind_listener", _Listener),
            (resources, "start_listening", lambda _sockets, _backlog: None),
        ]

    @property
    def broker(self) -> Broker:
        """The one that acts."""
        strand = self.scheduler.current
        assert strand is not None and isinstance(strand.home, Broker), "a broker acts"
        return strand.home

    def close(self) -> None:
        self.network.close()
        self.ensemble.close()
