"""The settings of a controller, and its source of random numbers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol
from uuid import UUID

from kafkad.core.controller.topics.assignment import RandomBelow
from kafkad.core.controller.topics.topics import NewTopic, TopicDefaults


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    """The settings of the controller from the broker configuration."""

    defaults: TopicDefaults
    is_single: bool = False
    """Whether the cluster is a single broker with an embedded store."""
    delete_topic_enable: bool = True
    unclean_leader_election_enable: bool = False
    """For topics without their own unclean.leader.election.enable."""
    names_broker_epochs: bool = True
    """Whether fetches and AlterPartition carry broker epochs (KIP-903)."""
    internal_topics: Mapping[str, NewTopic] = field(default_factory=dict)
    """The request that creates an internal topic at its first use."""


@dataclass(frozen=True, slots=True)
class RandomSource:
    """Random numbers and ids, drawn by the shell."""

    random_below: RandomBelow
    new_topic_id: Callable[[], UUID]


class LocalSpace(Protocol):
    """The space of the only broker, which the controller requires before it creates partitions."""

    def require_space(self, count: int) -> None:
        """Raises KafkaError if there is no space for so many more partitions."""
