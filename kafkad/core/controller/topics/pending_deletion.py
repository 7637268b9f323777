"""A topic that is deleted for clients while directories of it are still there."""

from collections.abc import Mapping
from dataclasses import dataclass, field

OFFLINE = -1
"""Stands for "some partition in an offline directory": such a deletion ends only when the directory is back."""


@dataclass(slots=True)
class PendingDeletion:
    """A topic that is deleted for clients; `remaining` are the partitions whose directories are still there.

    `slots`: partition by slot, for a deletion that began in this incarnation of the broker.
    """

    partitions: int
    remaining: set[int]
    slots: Mapping[int, int] = field(default_factory=dict)
