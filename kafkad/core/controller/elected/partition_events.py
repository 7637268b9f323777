"""The controller's log lines about elections: lost leaders, new leaders and ISR changes, with their causes.

Only decisions of the controller raise the leader epoch. An ISR change that a leader requested keeps it; the leader logs
it, with the lag of the follower.
"""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from kafkad.core.controller import deltas
from kafkad.core.controller.image import NO_LEADER, MetadataImage, Partition
from kafkad.core.partition_lines import Level, PartitionEvent, PartitionLines, shown
from kafkad.core.types import TopicPartition

_WITHOUT_LEADER = PartitionEvent(
    Level.ERROR,
    "no leader for",
    "no broker of the ISR is live; start one of them, or run kafkad elect-leaders --unclean, which loses the records "
    "that only the ISR has",
)
_UNCLEAN = PartitionEvent(
    Level.ERROR,
    "unclean leader election for",
    "no broker of the ISR was live, and unclean.leader.election.enable or a request allowed it; records that only the "
    "previous ISR has are lost, and its brokers truncate them when they return",
)
_NEW_LEADER = PartitionEvent(Level.INFO, "new leader for", "a broker of the ISR is live again")


class ElectedPartition(NamedTuple):
    """A partition before and after the leader epoch was raised."""

    at: TopicPartition
    before: Partition
    after: Partition

    @property
    def is_unclean(self) -> bool:
        """Whether the leader was not in sync."""
        leader, isr = self.after.leader, self.before.isr
        return leader != NO_LEADER and leader not in isr and bool(isr)


def elected_partitions(image: MetadataImage, changes: Iterable[deltas.Change]) -> Iterator[ElectedPartition]:
    """The partitions whose leader epoch the changes raise, compared with `image`."""
    for change in changes:
        topic = image.topics.get(change.name) if isinstance(change, deltas.PartitionsChanged) else None
        if topic is not None and isinstance(change, deltas.PartitionsChanged):
            for row in change.partitions:
                before = topic.partitions[row.index]
                if row.leader_epoch != before.leader_epoch:
                    yield ElectedPartition(TopicPartition(topic.name, row.index), before, row)


class UnavailableReplicas(NamedTuple):
    """The reasons why a replica can't be in sync."""

    live: AbstractSet[int]
    unreachable: AbstractSet[int]
    """Brokers with a session whose hosts refuse connections."""
    shutting_down: AbstractSet[int]
    offline: Mapping[TopicPartition, AbstractSet[int]]

    def reason(self, at: TopicPartition, broker: int) -> str:
        if broker in self.unreachable:
            return f"the host of broker {broker} refuses connections"
        if broker not in self.live:
            return f"broker {broker} is not registered"
        if broker in self.offline.get(at, ()):
            return f"the log directory of broker {broker} is offline or full"
        return f"broker {broker} is shutting down"


def add_lines(lines: PartitionLines, elected: ElectedPartition, unavailable: UnavailableReplicas) -> None:
    at, before, after = elected
    if elected.is_unclean:
        values = f"leader {after.leader}, previous ISR {shown(before.isr)}, leader epoch {after.leader_epoch}"
        lines.add(_UNCLEAN, f"{at} ({values})")
        return
    if after.leader == NO_LEADER and before.leader != NO_LEADER:
        add_without_leader(lines, at, after)
    elif after.leader != NO_LEADER and before.leader == NO_LEADER:
        lines.add(_NEW_LEADER, f"{at} (leader {after.leader}, leader epoch {after.leader_epoch})")
    lost = [each for each in before.isr if each not in after.isr and each in after.replicas]
    if lost:
        cause = ", ".join(unavailable.reason(at, each) for each in lost)
        is_requested = set(lost) <= unavailable.shutting_down
        event = PartitionEvent(Level.INFO if is_requested else Level.WARNING, "ISR shrunk for", cause)
        lines.add(event, f"{at} from {shown(before.isr)} to {shown(after.isr)}")


def add_without_leader(lines: PartitionLines, at: TopicPartition, row: Partition) -> None:
    lines.add(_WITHOUT_LEADER, f"{at} (ISR {shown(row.isr)})")
