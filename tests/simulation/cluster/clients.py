"""Producers and consumers of a cluster: those of a single broker, which look for the leader of their partition.

Each has one partition, so one connection is enough. It goes to whom the state in the ensemble names, or now and then to
anybody; who says that another one leads is left.
"""

from collections.abc import Callable

from tests.simulation.client import Client
from tests.simulation.committed import CommittedReader
from tests.simulation.consumer import Consumer
from tests.simulation.offsets import OffsetKeeper
from tests.simulation.producer import OUT_OF_ORDER, Batch, Lane, Producer
from tests.simulation.requests import FetchReply, Partition
from tests.simulation.scheduler import MS, NS
from tests.simulation.sockets import Port
from tests.simulation.transactions import TransactionalProducer

NOT_LEADER = (3, 5, 6)
"""UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER."""
REQUEST_TIMEOUT_NS = 4 * NS

FindPort = Callable[[Partition], Port | None]
"""Where to go for a partition; None while nobody is there."""


class Routed(Client):
    """Knows the way, and waits for no answer for ever: a broker may be cut off from the others."""

    find_port: FindPort
    home: Partition

    def connect(self) -> None:
        port = self.find_port(self.home)
        if port is not None:
            self._port = port
            super().connect()

    def is_there(self) -> bool:
        """Whether it is connected, if need be now; it tries again in a moment otherwise."""
        if not self.is_connected:
            self.connect()
        if not self.is_connected:
            self.wake_in(50)
        return self.is_connected

    def act(self) -> None:
        if self.open and self.scheduler.now_ns - self.open[0].sent_ns > REQUEST_TIMEOUT_NS:
            self.note(f"has waited too long for the answer to {self.open[0].correlation}")
            self.hang_up()
        super().act()
        if self.open:
            self.wake_ns = min(self.wake_ns, self.open[0].sent_ns + REQUEST_TIMEOUT_NS + MS)


class Coordinated(Routed):
    """One connection at a time all the same: it goes to and fro between the coordinator and the leaders."""

    coordinator: Partition
    """The internal partition whose leader that is."""

    def reach(self, partition: Partition | None = None) -> bool:
        self.home = partition or self.coordinator
        port = self.find_port(self.home)
        if port is None:
            return False
        if self.is_connected and self._port is not port:
            self.hang_up()
        if not self.is_connected:
            self._port = port
            Client.connect(self)
        return True


class ClusterTransactor(Coordinated, TransactionalProducer):
    """Transactions over partitions of several leaders."""


class ClusterKeeper(Coordinated, OffsetKeeper):
    """A coordinator that is replaced and has not heard of it answers from what it remembers, as Apache Kafka's does."""

    leads: Callable[[Port, Partition], bool]
    """Whether it is the broker at this port that leads, as far as it knows itself, too."""

    def knows_all(self) -> bool:
        return self.leads(self._port, self.coordinator)


class ClusterCommittedReader(Routed, CommittedReader):
    """Of one partition. Who leads anew may be behind for a while."""

    def step(self) -> None:
        if self.is_there():
            super().step()

    def disconnected(self) -> None:
        self._bounds.clear()
        super().disconnected()

    def refused(self, error: int) -> None:
        if error in NOT_LEADER and self.is_connected:
            self.hang_up()


class ClusterProducer(Routed, Producer):
    """acks=all. A broker that is replaced and has not heard of it lacks what its successor has: its refusal of a
    sequence says nothing about the log.
    """

    leads: Callable[[Port, Partition], bool]
    """Whether it is the broker at this port that leads, as far as it knows itself, too."""

    def step(self) -> None:
        if self.is_done or self.is_there():
            super().step()

    def _settle(self, lane: Lane, batch: Batch, error: int, offset: int) -> None:
        super()._settle(lane, batch, error, offset)
        is_replaced = error == OUT_OF_ORDER and not self.leads(self._port, lane.partition)
        if (is_replaced or error in NOT_LEADER) and self.is_connected and not self.open:
            self.hang_up()

    def _refused(self, lane: Lane, batch: Batch) -> None:
        if self.leads(self._port, lane.partition):
            super()._refused(lane, batch)


class ClusterConsumer(Routed, Consumer):
    """What it has read stays, whoever leads; the high watermark of a new leader may be behind for a while."""

    def step(self) -> None:
        if self.is_there():
            super().step()

    def _fetched(self, reply: FetchReply, asked: dict[Partition, int], acknowledged: dict[Partition, int]) -> None:
        super()._fetched(reply, asked, dict.fromkeys(acknowledged, 0))
        if any(found.error in NOT_LEADER for found in reply.partitions.values()) and self.is_connected:
            self.hang_up()
