"""Assigns the replicas of new partitions to brokers, by Kafka's algorithm (AdminUtils.assignReplicasToBrokers).

First replicas are assigned round-robin from a random start; the others follow with a shift that grows by one each
round. With racks, brokers are interleaved by rack, and a rack gets a second replica only when every rack has one.
Brokers without a rack form one rack if others have racks, as in StripedReplicaPlacer (Apache Kafka 4). The random
numbers are arguments: the same start and shift give the same assignment.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kafkad.core.errors import ErrorCode, KafkaError

NO_RACK = ""
Assignment = tuple[int, ...]
"""Replicas in order of preference: the first is the preferred leader."""


@dataclass(frozen=True, slots=True)
class ReplicaAssignment:
    """While a reassignment is in progress, `replicas` are the target replicas, then those to remove."""

    replicas: Assignment
    adding: Assignment = ()
    removing: Assignment = ()

    @property
    def is_being_reassigned(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def target(self) -> Assignment:
        return tuple(each for each in self.replicas if each not in self.removing)

    @property
    def origin(self) -> Assignment:
        """The replicas before the reassignment, perhaps in another order."""
        return tuple(each for each in self.replicas if each not in self.adding)

    def reassigned_to(self, target: Assignment) -> "ReplicaAssignment":
        """The assignment with this target instead of the present one."""
        origin = self.origin
        return ReplicaAssignment(
            replicas=tuple(dict.fromkeys((*target, *origin))),
            adding=tuple(each for each in target if each not in origin),
            removing=tuple(each for each in origin if each not in target),
        )


class RandomBelow(Protocol):
    """A random number from 0 to `limit` - 1, drawn by the shell."""

    def __call__(self, limit: int) -> int: ...


def assign_replicas(
    racks: Mapping[int, str | None],
    partitions: int,
    replication_factor: int,
    *,
    start_index: int,
    shift: int,
    first_partition: int = 0,
) -> list[Assignment]:
    """The assignments of the partitions from `first_partition` on. `racks` has every usable broker.

    Raises INVALID_REPLICATION_FACTOR.
    """
    if replication_factor > len(racks):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): The target replication factor of "
            f"{replication_factor} cannot be reached because only {len(racks)} broker(s) are registered.",
        )
    if all(rack is None for rack in racks.values()):
        return _without_racks(sorted(racks), partitions, replication_factor, start_index, shift, first_partition)
    named = {broker: rack if rack is not None else NO_RACK for broker, rack in racks.items()}
    return _with_racks(named, partitions, replication_factor, start_index, shift, first_partition)


def validate_manual(
    replicas: Sequence[int], brokers: Mapping[int, object], replication_factor: int | None
) -> Assignment:
    """The assignment of a request, checked: registered brokers, each once, as many as in the other partitions."""
    prefix = "The manual partition assignment includes"
    if not replicas:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{prefix} an empty replica list.")
    previous = None
    for broker in sorted(replicas):
        if broker not in brokers:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{prefix} broker {broker}, but no such broker is registered.",
            )
        if broker == previous:
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{prefix} the broker {broker} more than once.")
        previous = broker
    if replication_factor is not None and len(replicas) != replication_factor:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{prefix} a partition with {len(replicas)} replica(s), but this is not consistent with previous "
            f"partitions, which have {replication_factor} replica(s).",
        )
    return tuple(replicas)


def interleave_by_rack(racks: Mapping[int, str]) -> list[int]:
    """The brokers with the rack changing at each step: racks by name, brokers of a rack by id."""
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker], []).append(broker)
    queues = [by_rack[rack] for rack in sorted(by_rack)]
    longest = max(map(len, queues))
    return [queue[lap] for lap in range(longest) for queue in queues if lap < len(queue)]


def _without_racks(
    brokers: Sequence[int],
    partitions: int,
    replication_factor: int,
    start: int,
    shift: int,
    first_partition: int,
) -> list[Assignment]:
    count = len(brokers)
    assignments = []
    for partition in range(first_partition, first_partition + partitions):
        if partition > 0 and partition % count == 0:
            shift += 1
        first = (partition + start) % count
        followers = (
            brokers[_follower_index(first, shift, replica, count)] for replica in range(replication_factor - 1)
        )
        assignments.append((brokers[first], *followers))
    return assignments


def _with_racks(
    racks: Mapping[int, str],
    partitions: int,
    replication_factor: int,
    start: int,
    shift: int,
    first_partition: int,
) -> list[Assignment]:
    brokers = interleave_by_rack(racks)
    count = len(brokers)
    assignments = []
    for partition in range(first_partition, first_partition + partitions):
        if partition > 0 and partition % count == 0:
            shift += 1
        first = (partition + start) % count
        assignments.append(_spread_over_racks(brokers, racks, replication_factor, first, shift))
    return assignments


def _spread_over_racks(
    brokers: Sequence[int], racks: Mapping[int, str], replication_factor: int, first: int, shift: int
) -> Assignment:
    count = len(brokers)
    rack_count = len(set(racks.values()))
    replicas = [brokers[first]]
    racks_used = {racks[brokers[first]]}
    step = 0
    while len(replicas) < replication_factor:
        broker = brokers[_follower_index(first, shift * rack_count, step, count)]
        step += 1
        rack_is_free = racks[broker] not in racks_used or len(racks_used) == rack_count
        broker_is_free = broker not in replicas or len(replicas) == count
        if rack_is_free and broker_is_free:
            replicas.append(broker)
            racks_used.add(racks[broker])
    return tuple(replicas)


def _follower_index(first: int, shift: int, replica: int, brokers: int) -> int:
    # With one broker there are no followers, so brokers - 1 is not 0 here.
    return (first + 1 + (shift + replica) % (brokers - 1)) % brokers
