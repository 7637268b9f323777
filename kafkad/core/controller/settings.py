"""What a controller is given: its settings, and where random numbers come from."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from kafkad.core.controller.topics.assignment import RandomBelow
from kafkad.core.controller.topics.topics import NewTopic, TopicDefaults


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    """The settings of the controller from the broker configuration."""

    broker_id: int
    workers: int
    defaults: TopicDefaults
    delete_topic_enable: bool = True
    unclean_leader_election_enable: bool = False
    """For topics that don't say it themselves."""
    names_broker_epochs: bool = True
    """Whether followers and leaders say in which life of a broker records were fetched (KIP-903)."""
    internal_topics: Mapping[str, NewTopic] = field(default_factory=dict)
    """The request with which an internal topic is created when it is first needed."""


@dataclass(frozen=True, slots=True)
class RandomSource:
    """Random numbers and ids, which the shell draws for the rules."""

    random_below: RandomBelow
    new_topic_id: Callable[[], UUID]
