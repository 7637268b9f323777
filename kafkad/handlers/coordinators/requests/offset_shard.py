"""The part of a group shard that the APIs about offsets use."""

from typing import Protocol

from kafkad.core.groups.offsets.offset_metadata import GroupOffsets


class OffsetShard(Protocol):
    @property
    def offsets(self) -> GroupOffsets: ...
