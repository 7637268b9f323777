"""What goes wrong in a cluster: processes, brokers and their power, links, the ensemble; everybody has slow phases."""

from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path

from tests.simulation.cluster.casting import CRASHES, DEATHS, LINKS, POWER, SESSIONS, SHUTDOWNS
from tests.simulation.cluster.leaving import ClusterBroker
from tests.simulation.cluster.ports import ClusterPorts
from tests.simulation.cluster.replicas import Replicas
from tests.simulation.scheduler import MS, Timers

MORTAL = ("worker", "worker", "network", "fetcher", "fetcher", "controller", "controller")
"""Who is killed how often."""
PAUSES_MS = (5, 50, 300, 1_500)
DOWN_MS = (0, 100, 1_000, 2_500, 4_500)

_HARMLESS = (DEATHS, LINKS)
"""No session ends: none that the ISR relies on, while it names one that has lost records."""


class ClusterFaults:
    """`left` more of them, one after the other at drawn times, until `calm`."""

    def __init__(
        self,
        ports: ClusterPorts,
        brokers: Sequence[ClusterBroker],
        replicas: Replicas,
        *,
        number: int,
        slowness: float,
        troubles: Sequence[str],
    ) -> None:
        self._ports = ports
        self._scheduler = ports.scheduler
        self._brokers = brokers
        self._replicas = replicas
        self._slowness = slowness
        self._troubles = troubles
        self._timers = Timers(self._scheduler)
        self._kinds: dict[str, list[Callable[[], None]]] = {
            DEATHS: [self._kill],
            LINKS: [self._cut_link, self._cut_link, self._break_connections],
            CRASHES: [self._crash],
            SESSIONS: [self._lose_session, self._cut_off],
            POWER: [self._lose_power],
            SHUTDOWNS: [self._shut_down],
        }
        self.left = number
        self._scheduler.add(self._timers)
        self._plan()

    @property
    def is_over(self) -> bool:
        return not self._timers

    def _plan(self) -> None:
        if self.left > 0:
            self._timers.after(self._scheduler.random.choice(PAUSES_MS) * MS, self._strike)

    def _strike(self) -> None:
        self.left -= 1
        self._scheduler.shuffle_speeds(self._slowness)
        trouble = self._scheduler.random.choice(self._troubles)
        kinds = self._kinds[trouble]
        kind = self._scheduler.random.choice(kinds)
        if trouble in _HARMLESS or not self._replicas.powerless:
            kind()
        self._plan()

    def _one(self) -> ClusterBroker:
        return self._scheduler.random.choice(self._brokers)

    def _pair(self) -> tuple[ClusterBroker, ClusterBroker]:
        return self._scheduler.random.choice(list(combinations(self._brokers, 2)))

    def _kill(self) -> None:
        broker = self._one()
        broker.kill(self._scheduler.random.choice(MORTAL))

    def _crash(self, broker: ClusterBroker | None = None) -> None:
        """All processes of a broker, which is there again after a while."""
        broker = broker or self._one()
        if broker.is_running:
            broker.crash()
            self._timers.after(self._scheduler.random.choice(DOWN_MS) * MS, lambda: self._begin(broker))

    def _shut_down(self) -> None:
        """In order: others lead before it stops."""
        broker = self._one()
        if broker.is_running:
            broker.leave()
            self._timers.after(self._scheduler.random.choice(DOWN_MS) * MS, lambda: self._begin(broker))

    def _begin(self, broker: ClusterBroker) -> None:
        """One that leaves is waited for."""
        if broker.is_leaving or broker.is_stopping:
            self._timers.after(100 * MS, lambda: self._begin(broker))
        elif not broker.is_running:
            broker.start()

    def _lose_power(self) -> None:
        broker = self._one()
        node_id = broker.config.node_id
        if broker.is_running and self._replicas.may_lose_power(node_id):
            self._replicas.loses_power(node_id)
            self._crash(broker)
            self._ports.network.lose_power(broker)
            self._ports.disk.lose_power(str(Path(broker.config.log_dirs.log_dirs[0]).parent) + "/")

    def _cut_link(self) -> None:
        one, other = self._pair()
        network = self._ports.network
        self._scheduler.note("network", f"nothing passes between {one.name} and {other.name}")
        network.take_down(one, other)
        self._timers.after(self._scheduler.random.choice(DOWN_MS) * MS, lambda: network.bring_up(one, other))

    def _break_connections(self) -> None:
        one, other = self._pair()
        self._scheduler.note("network", f"all connections between {one.name} and {other.name} break")
        self._ports.network.break_connections(one, other)

    def _lose_session(self) -> None:
        sessions = sorted(self._ports.ensemble.sessions)
        if sessions:
            self._ports.ensemble.expire(self._scheduler.random.choice(sessions))

    def _cut_off(self) -> None:
        broker = self._one()
        self._scheduler.note("ensemble", f"is not reached by {broker.name}")
        self._ports.ensemble.cut_off(broker, self._scheduler.random.choice((20, 500, 2_500, 4_000)))

    def calm(self) -> None:
        """Peace: everybody is there, and hears everybody."""
        self._timers.clear()
        self._scheduler.remove(self._timers)
        self._scheduler.pause_chance = 0.0
        self._scheduler.shuffle_speeds(0.0)
        for one, other in combinations(self._brokers, 2):
            self._ports.network.bring_up(one, other)
        for broker in self._brokers:
            self._begin(broker)
            broker.spare()
