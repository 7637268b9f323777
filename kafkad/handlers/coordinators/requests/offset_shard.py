"""The interface of a group shard for the APIs about offsets."""

from typing import Protocol

from kafkad.core.groups.offsets.offset_metadata import GroupOffsets


class OffsetShard(Protocol):
    @property
    def offsets(self) -> GroupOffsets: ...
