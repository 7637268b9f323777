"""What happens to the brokers and their ZooKeeper, as a seed decides; every fault is healed in the end."""

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from tests.chaos.hosts import ZOOKEEPERS, HostedBroker, HostedCluster
from tests.chaos.network import How
from tests.chaos.workload import Promises
from tests.daemon.cluster_broker import SHORT_SESSION_MS

SHORT_S = SHORT_SESSION_MS / 1000 / 4
LONG_S = SHORT_SESSION_MS / 1000 * 2
CALM_S = 4.0
CLOCK_MS = 30 * 60 * 1000
HOW: tuple[How, ...] = ("drop", "reject with tcp reset")


class Faults:
    """`play` until the time is over: one after the other, with some calm in which the cluster may recover or not."""

    def __init__(self, cluster: HostedCluster, promises: Promises, seed: int) -> None:
        self._cluster = cluster
        self._promises = promises
        self._random = random.Random(seed)
        self._pause = threading.Event()

    def play(self, seconds: float) -> None:
        kinds: tuple[Callable[[], None], ...] = (
            self.process_is_killed,
            self.process_is_killed,
            self.process_hangs,
            self.broker_is_killed,
            self.broker_is_killed,
            self.broker_is_restarted,
            self.broker_hangs_for_a_moment,
            self.broker_hangs_for_longer_than_its_session,
            self.zookeeper_hangs_for_a_moment,
            self.zookeeper_hangs_for_longer_than_sessions,
            self.zookeepers_leader_is_killed,
            self.zookeepers_leader_is_cut_off_from_the_others,
            self.ensemble_is_lost_and_comes_back,
            self.there_are_two_controllers,
            self.all_are_killed,
            self.broker_and_zookeeper_are_cut_off_from_each_other,
            self.two_brokers_are_cut_off_from_each_other,
            self.one_broker_does_not_hear_another,
            self.broker_hears_clients_only,
            self.broker_is_unplugged,
            self.disk_is_full,
            self.disk_is_slow,
            self.disk_stands_still,
            self.clock_jumps,
        )
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self._promises.broken:
            fault = self._random.choice(kinds)
            print(f"{time.strftime('%X')} {fault.__name__}", flush=True)
            self.start_what_ended()
            fault()
            self._promises.count(fault.__name__.replace("_", " "))
            self._wait(self._random.uniform(0, CALM_S))

    def _wait(self, seconds: float) -> None:
        self._pause.wait(seconds)

    def _any(self) -> HostedBroker:
        return self._random.choice(list(self._cluster.hosted.values()))

    def process_is_killed(self) -> None:
        """The supervisor starts another."""
        children = self._any().tree()[1:]
        if children:
            _signal(self._random.choice(children).pid, signal.SIGKILL)

    def process_hangs(self) -> None:
        children = self._any().tree()[1:]
        if children:
            pid = self._random.choice(children).pid
            _signal(pid, signal.SIGSTOP)
            self._wait(self._random.uniform(0, LONG_S))
            _signal(pid, signal.SIGCONT)

    def broker_is_killed(self) -> None:
        broker = self._any()
        broker.kill()
        self._wait(self._random.uniform(0, LONG_S))
        broker.start()

    def broker_is_restarted(self) -> None:
        broker = self._any()
        code = broker.stop()
        if code != 0:
            self._promises.broken.append(f"a stop in order ended with {code}: {broker.tail()}")
        broker.start()

    def broker_hangs_for_a_moment(self) -> None:
        self._hang(SHORT_S)

    def broker_hangs_for_longer_than_its_session(self) -> None:
        self._hang(LONG_S)

    def _hang(self, seconds: float) -> None:
        pids = [each.pid for each in self._any().tree()]
        for pid in pids:
            _signal(pid, signal.SIGSTOP)
        self._wait(seconds)
        for pid in pids:
            _signal(pid, signal.SIGCONT)

    def zookeeper_hangs_for_a_moment(self) -> None:
        self._zookeeper(SHORT_S)

    def zookeeper_hangs_for_longer_than_sessions(self) -> None:
        self._zookeeper(LONG_S)

    def _zookeeper(self, seconds: float) -> None:
        self._cluster.server.pause()
        self._wait(seconds)
        self._cluster.server.resume()

    def zookeepers_leader_is_killed(self) -> None:
        """The others elect one of them, and sessions go on there."""
        leader = self._cluster.ensemble.leader()
        if leader is not None:
            leader[1].kill()
            self._wait(self._random.uniform(0, LONG_S))
            leader[1].start()

    def zookeepers_leader_is_cut_off_from_the_others(self) -> None:
        """It has no quorum any more, and those that are connected to it have to go elsewhere."""
        leader = self._cluster.ensemble.leader()
        if leader is not None:
            self._cut_both_ways(leader[0], [host for host in ZOOKEEPERS if host != leader[0]])

    def ensemble_is_lost_and_comes_back(self) -> None:
        for server in self._cluster.ensemble.servers.values():
            server.kill()
        self._wait(self._random.uniform(0, LONG_S * 2))
        for server in self._cluster.ensemble.servers.values():
            server.start()

    def there_are_two_controllers(self) -> None:
        """One hangs until another is elected, then goes on with what it was about to tell brokers."""
        number = self._cluster.active_controller()
        hung = [] if number is None else self._cluster.hosted[number].tree()[1:]
        pids = [process.pid for process in hung if process.name == "controller"]
        for pid in pids:
            _signal(pid, signal.SIGSTOP)
        until = time.monotonic() + LONG_S
        while self._cluster.active_controller() in (number, None) and time.monotonic() < until:
            self._wait(0.05)
        for pid in pids:
            _signal(pid, signal.SIGCONT)

    def broker_and_zookeeper_are_cut_off_from_each_other(self) -> None:
        self._cut_both_ways(self._any().folder.name, ZOOKEEPERS)

    def two_brokers_are_cut_off_from_each_other(self) -> None:
        one, other = self._random.sample([broker.folder.name for broker in self._cluster.hosted.values()], 2)
        self._cut_both_ways(one, [other])

    def _cut_both_ways(self, one: str, others: Sequence[str]) -> None:
        how = self._random.choice(HOW)
        self._cluster.network.cut(one, others, how)
        for other in others:
            self._cluster.network.cut(other, [one], how)
        self._heal_later()

    def one_broker_does_not_hear_another(self) -> None:
        one, other = self._random.sample([broker.folder.name for broker in self._cluster.hosted.values()], 2)
        self._cluster.network.cut(one, [other], self._random.choice(HOW))
        self._heal_later()

    def broker_hears_clients_only(self) -> None:
        """It leads on for its clients, until its session is over by its own clock."""
        deaf = self._any().folder.name
        others = [broker.folder.name for broker in self._cluster.hosted.values() if broker.folder.name != deaf]
        self._cluster.network.cut(deaf, [*ZOOKEEPERS, *others], self._random.choice(HOW))
        self._heal_later()

    def broker_is_unplugged(self) -> None:
        self._cluster.network.unplug(self._any().folder.name)
        self._heal_later()

    def _heal_later(self) -> None:
        self._wait(self._random.uniform(0, LONG_S * 2))
        self._cluster.network.heal()

    def disk_is_full(self) -> None:
        """A broker whose only log directory fails ends; it is started again when there is room."""
        broker = self._any()
        broker.fill_disk()
        self._wait(self._random.uniform(SHORT_S, LONG_S * 2))
        broker.empty_disk()
        self.start_what_ended()

    def disk_is_slow(self) -> None:
        """Now and then a write takes up to half a second."""
        broker = self._any()
        until = time.monotonic() + self._random.uniform(SHORT_S, LONG_S * 2)
        while time.monotonic() < until:
            self._frozen(broker, self._random.uniform(0.02, 0.5))
            self._wait(self._random.uniform(0.01, 0.1))

    def disk_stands_still(self) -> None:
        """Longer than its processes may be silent, perhaps."""
        self._frozen(self._any(), self._random.uniform(SHORT_S, LONG_S * 2))

    def _frozen(self, broker: HostedBroker, seconds: float) -> None:
        broker.freeze_disk()
        try:
            self._wait(seconds)
        finally:
            broker.thaw_disk()

    def clock_jumps(self) -> None:
        """Less than the hour by which a record may be ahead of its broker."""
        broker = self._any()
        broker.set_clock(self._random.randint(-CLOCK_MS, CLOCK_MS))
        self._wait(self._random.uniform(0, LONG_S * 2))
        broker.set_clock(0)

    def start_what_ended(self) -> None:
        for broker in self._cluster.hosted.values():
            if broker.has_ended:
                broker.start()

    def all_are_killed(self) -> None:
        brokers = list(self._cluster.hosted.values())
        for broker in brokers:
            broker.kill()
        self._random.shuffle(brokers)
        for broker in brokers:
            broker.start(wait=False)
        for broker in brokers:
            broker.wait_until_ready()


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
