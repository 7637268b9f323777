"""What the APIs about offsets need of a group shard."""

from typing import Protocol

from kafkad.core.groups.offsets.offset_metadata import GroupOffsets


class OffsetShard(Protocol):
    @property
    def offsets(self) -> GroupOffsets: ...
