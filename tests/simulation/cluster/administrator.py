"""Who changes a cluster while it is under load: moves replicas, changes his mind, gives leaderships back, deletes."""

from collections.abc import Callable, Mapping, Sequence

from tests.simulation.admin import TopicMaker
from tests.simulation.client import Client
from tests.simulation.cluster import admin_requests
from tests.simulation.cluster.admin_requests import PartitionMetadata
from tests.simulation.cluster.clients import NOT_LEADER, Routed
from tests.simulation.requests import Partition
from tests.simulation.scheduler import NS, Scheduler, Violated
from tests.simulation.sockets import Port

REFUSALS = {
    -1: "UNKNOWN_SERVER_ERROR",
    3: "UNKNOWN_TOPIC_OR_PARTITION",
    7: "REQUEST_TIMED_OUT",
    39: "INVALID_REPLICA_ASSIGNMENT",
    41: "NOT_CONTROLLER",
    80: "PREFERRED_LEADER_NOT_AVAILABLE",
    84: "ELECTION_NOT_NEEDED",
    85: "NO_REASSIGNMENT_IN_PROGRESS",
}
"""What may be said: a broker is dead, the controller is not there, there is nothing to do."""
NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS_AFTER_APPEND, INVALID_REPLICATION_FACTOR = 19, 20, 38


class Mover(Routed):
    """Moves partitions, cancels moves, and has preferred leaders elected."""

    def __init__(
        self, scheduler: Scheduler, port: Port, *, partitions: Sequence[Partition], brokers: Sequence[int], steps: int
    ) -> None:
        super().__init__(scheduler, port, "mover")
        self._partitions = list(partitions)
        self._brokers = list(brokers)
        self._left = steps

    @property
    def is_done(self) -> bool:
        return self._left <= 0 and not self.open

    def step(self) -> None:
        if self.open or self.is_done:
            return
        random = self.scheduler.random
        self.home = random.choice(self._partitions)
        if not self.is_there():
            return
        self._left -= 1
        random.choice((self._reassign, self._reassign, self._cancel, self._elect))()

    def _ask(self, what: str, make: Callable[[int], bytes], read: Callable[[bytes], int]) -> None:
        def answered(body: bytes | None) -> None:
            error = read(body) if body is not None else 7
            self.note(f"{what}: error {error}")
            if error and error not in REFUSALS:
                raise Violated(f"{self.name} got error {error}: {what}")
            self.wake_in(self.scheduler.random.choice((0, 5, 50, 400, 2_000)))

        self.ask(what, make, answered)

    def _reassign(self) -> None:
        random, partition = self.scheduler.random, self.home
        target = random.sample(self._brokers, random.choice((2, 2, 3)))
        self._ask(
            f"move {partition} to {target}",
            lambda at: admin_requests.reassign(partition, target, at),
            admin_requests.read_reassigned,
        )

    def _cancel(self) -> None:
        partition = self.home
        self._ask(
            f"cancel the move of {partition}",
            lambda at: admin_requests.reassign(partition, None, at),
            admin_requests.read_reassigned,
        )

    def _elect(self) -> None:
        partition = self.home
        self._ask(
            f"elect the preferred leader of {partition}",
            lambda at: admin_requests.elect_preferred(partition, at),
            admin_requests.read_elected,
        )


class ClusterTopicMaker(Routed, TopicMaker):
    """With acks=all; who leads anew may not know at once how far consumers may read."""

    acks = -1
    replication_factor = 3
    not_now = TopicMaker.not_now | {NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS_AFTER_APPEND}
    not_created = TopicMaker.not_created | {INVALID_REPLICATION_FACTOR}
    leaves_slowly = True
    patience_ns = 60 * NS

    def step(self) -> None:
        if self.is_done or self.is_there():
            super().step()

    def refused(self, error: int) -> None:
        if error in NOT_LEADER and self.is_connected:
            self.hang_up()


class MetadataReader(Client):
    """Asks one broker what it knows, until that is what is so."""

    def __init__(
        self, scheduler: Scheduler, port: Port, name: str, truth: Callable[[], Mapping[Partition, PartitionMetadata]]
    ) -> None:
        super().__init__(scheduler, port, name)
        self._truth = truth
        self.found: Mapping[Partition, PartitionMetadata] | None = None

    def knows_all(self) -> bool:
        return self.found == self._truth()

    def step(self) -> None:
        if self.open:
            return
        if not self.is_connected:
            self.connect()

        def answered(body: bytes | None) -> None:
            self.found = admin_requests.read_metadata(body) if body is not None else None
            self.wake_in(50)

        self.ask("metadata", admin_requests.all_metadata, answered)
