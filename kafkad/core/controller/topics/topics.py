"""Checks new topics and partitions, and assigns their replicas, with Kafka's rules and messages.

Pure decisions for one topic at a time; controller.py stores and publishes them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafkad.core.controller.image import Broker, Topic
from kafkad.core.controller.topics.assignment import Assignment, RandomBelow, assign_replicas, validate_manual
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.quoting import quoted

DEFAULT = -1
MAX_PARTITIONS_PER_REQUEST = 10_000
"""The limit of Apache Kafka 4."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic in CreateTopics; `assignments` are (partition, brokers) in the order of the request."""

    name: str
    partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: tuple[tuple[int, Assignment], ...] = ()
    configs: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPartitions:
    """`count` is the new total; `assignments` are those of the additional partitions, None: the broker assigns."""

    name: str
    count: int
    assignments: tuple[Assignment, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDefaults:
    """num.partitions and default.replication.factor."""

    partitions: int
    replication_factor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicResult:
    """The result of one topic of a request. Without an error `topic` is the new topic, also with validate-only."""

    name: str
    code: ErrorCode = ErrorCode.NONE
    message: str | None = None
    topic: Topic | None = None


TopicResults = dict[str, TopicResult]
"""By name."""


def assign_topic(
    new: NewTopic, brokers: Mapping[int, Broker], defaults: TopicDefaults, random_below: RandomBelow
) -> list[Assignment]:
    """The replicas of each partition of a new topic."""
    if new.assignments:
        return _manual_assignment(new, brokers)
    if new.replication_factor < DEFAULT or new.replication_factor == 0:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if new.partitions < DEFAULT or new.partitions == 0:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
    partitions = defaults.partitions if new.partitions == DEFAULT else new.partitions
    factor = defaults.replication_factor if new.replication_factor == DEFAULT else new.replication_factor
    return assign_replicas(
        _racks(brokers),
        partitions,
        factor,
        start_index=random_below(max(1, len(brokers))),
        shift=random_below(max(1, len(brokers))),
    )


def assign_more_partitions(topic: Topic, new: NewPartitions, brokers: Mapping[int, Broker]) -> list[Assignment]:
    """The replicas of additional partitions."""
    have = len(topic.partitions)
    if new.count == have:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {have} partition(s).")
    if new.count < have:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {have} partition(s); {new.count} would not be an increase.",
        )
    additional = new.count - have
    factor = len(topic.partitions[0].replicas)
    if new.assignments is None:
        return _continue_assignment(topic, additional, factor, brokers)
    if len(new.assignments) != additional:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {additional} additional partition(s), but only {len(new.assignments)} "
            "assignment(s) were specified.",
        )
    return [validate_manual(replicas, brokers, factor) for replicas in new.assignments]


def configs_to_set(new: NewTopic) -> dict[str, str]:
    """The configs of a new topic by key. Raises INVALID_CONFIG for a null value, as Kafka does."""
    without_value = [name for name, value in new.configs if value is None]
    if without_value:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {quoted(','.join(without_value))}"
        )
    return {name: value for name, value in new.configs if value is not None}


def requests_too_many_partitions(topics: Sequence[NewTopic], defaults: TopicDefaults) -> bool:
    """Whether a request creates more partitions than one request may."""
    return sum(partitions_of(topic, defaults) for topic in topics) > MAX_PARTITIONS_PER_REQUEST


def partitions_of(new: NewTopic, defaults: TopicDefaults) -> int:
    """The number of partitions of the request, which may be less than 1."""
    if new.assignments:
        return len(new.assignments)
    return defaults.partitions if new.partitions == DEFAULT else new.partitions


def adds_too_many_partitions(requested: Sequence[NewPartitions], topics: Mapping[str, Topic]) -> bool:
    """Whether a request adds more partitions than one request may; Apache Kafka returns UNKNOWN_SERVER_ERROR."""
    existing = ((new.count, topics[new.name]) for new in requested if new.name in topics)
    return sum(max(0, count - len(topic.partitions)) for count, topic in existing) > MAX_PARTITIONS_PER_REQUEST


def _manual_assignment(new: NewTopic, brokers: Mapping[int, Broker]) -> list[Assignment]:
    for value, field in ((new.replication_factor, "replication factor"), (new.partitions, "numPartitions")):
        if value != DEFAULT:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"A manual partition assignment was specified, but {field} was not set to -1.",
            )
    assigned: dict[int, Assignment] = {}
    factor = None
    for partition, replicas in new.assignments:
        if partition in assigned:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {partition}",
            )
        assigned[partition] = validate_manual(replicas, brokers, factor)
        factor = len(replicas)
    if sorted(assigned) != list(range(len(assigned))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    return [assigned[partition] for partition in range(len(assigned))]


def _continue_assignment(topic: Topic, additional: int, factor: int, brokers: Mapping[int, Broker]) -> list[Assignment]:
    # As if the topic had been created with all of them: the start is the first replica of partition 0.
    first_replica = topic.partitions[0].replicas[0]
    start = next((at for at, broker in enumerate(sorted(brokers)) if broker >= first_replica), 0)
    return assign_replicas(
        _racks(brokers),
        additional,
        factor,
        start_index=start,
        shift=start,
        first_partition=len(topic.partitions),
    )


def _racks(brokers: Mapping[int, Broker]) -> dict[int, str | None]:
    return {broker.id: broker.rack for broker in brokers.values()}
