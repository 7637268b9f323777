"""What the APIs about offsets need of a group shard."""

from typing import Protocol

from kafkad.core.groups.offsets import GroupOffsets


class OffsetShard(Protocol):
    @property
    def offsets(self) -> GroupOffsets: ...
