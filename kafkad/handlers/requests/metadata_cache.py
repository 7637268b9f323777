"""The packed topics of Metadata responses, kept for as long as the topic and the live brokers are the same.

An image replaces a `Topic` whenever anything about it changes, so the identity of the object says whether its bytes are
still valid. This module decides what clients see of a topic; the wire decides the layout.
"""

from collections.abc import Collection, Hashable, Sequence

from kafkad.core.controller.image import NO_LOG_DIR, NO_SLOT, MetadataImage, Partition, Topic
from kafkad.core.controller.topics.names import is_internal
from kafkad.core.errors import ErrorCode
from kafkad.core.types import NO_LEADER
from kafkad.wire.error_counts import count_errors
from kafkad.wire.messages.metadata import PartitionRow, layout, pack_topic

WHOLE_ANSWERS = 4
"""Cached answers with all topics. Each may be megabytes, and clients of the same kind send the same request."""


class _Packed:
    """One topic in the layouts that were needed so far, mostly one or two.

    Mutable and slotted: there is one for each topic.
    """

    __slots__ = ("errors", "forms", "topic")

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.forms: dict[int, bytes] = {}
        self.errors: list[int] = []
        """The error codes of its partitions, which are counted for each answer."""


class MetadataCache:
    """The cache of one process."""

    def __init__(self) -> None:
        self._packed: dict[str, _Packed] = {}
        self._live: frozenset[int] = frozenset()
        self._image: MetadataImage | None = None
        self._whole: dict[Hashable, tuple[bytes, Sequence[int]]] = {}

    def follow(self, image: MetadataImage, broker_id: int) -> None:
        """Drop topics that are not in `image` any more. `broker_id` is this broker: it is live, registered or not."""
        if image is self._image:
            return
        self._image = image
        self._whole.clear()
        live = frozenset(image.brokers) | {broker_id}
        if live != self._live:
            self._live = live
            self._packed.clear()
        elif len(self._packed) > len(image.topics):
            self._packed = {name: each for name, each in self._packed.items() if name in image.topics}

    def topics(self, topics: Collection[Topic], version: int, broker_id: int) -> list[bytes]:
        """Each topic without its last fields, packed for `version`."""
        form = layout(version)
        known = self._packed
        out = []
        for topic in topics:
            packed = known.get(topic.name)
            if packed is None or packed.topic is not topic:
                packed = known[topic.name] = _Packed(topic)
            body = packed.forms.get(form)
            if body is None:
                body = packed.forms[form] = self._pack(packed, version, broker_id)
            if packed.errors:
                count_errors(packed.errors)
            out.append(body)
        return out

    def whole(self, asked: Hashable) -> bytes | None:
        """The answer about all topics, one object for equal requests: it depends on `asked` and the image."""
        kept = self._whole.get(asked)
        if kept is None:
            return None
        body, errors = kept
        count_errors(errors)
        return body

    def keep_whole(self, asked: Hashable, image: MetadataImage, body: bytes) -> None:
        """Keep such an answer, which was made from `image`; drop it if the image was replaced meanwhile."""
        if image is self._image and len(self._whole) < WHOLE_ANSWERS:
            errors = [error for packed in self._packed.values() for error in packed.errors]
            self._whole[asked] = body, errors

    def _pack(self, packed: _Packed, version: int, broker_id: int) -> bytes:
        topic = packed.topic
        rows = [describe_partition(partition, self._live, broker_id) for partition in topic.partitions]
        if version == 0:
            rows = [_of_live_brokers(row, self._live) for row in rows]
        packed.errors = [row[0] for row in rows if row[0]]
        return pack_topic(version, ErrorCode.NONE, topic.name, topic.id.bytes, is_internal(topic.name), rows)


def describe_partition(partition: Partition, live: Collection[int], broker_id: int) -> PartitionRow:
    """A partition whose leader is dead has none; replicas on dead brokers and failed disks are offline."""
    failed_here = partition.log_dir == NO_LOG_DIR and partition.slot != NO_SLOT
    offline = tuple(
        replica for replica in partition.replicas if replica not in live or (failed_here and replica == broker_id)
    )
    leader = partition.leader
    error = ErrorCode.NONE
    if leader not in live or leader in offline:
        leader, error = NO_LEADER, ErrorCode.LEADER_NOT_AVAILABLE
    return error, partition.index, leader, partition.leader_epoch, partition.replicas, partition.isr, offline


def _of_live_brokers(row: PartitionRow, live: Collection[int]) -> PartitionRow:
    """Version 0 names live brokers only, and says so when some are missing."""
    error, index, leader, leader_epoch, replicas, isr, offline = row
    here = tuple(replica for replica in replicas if replica in live)
    in_sync = tuple(replica for replica in isr if replica in live)
    if error == ErrorCode.NONE and (here != replicas or in_sync != isr):
        error = ErrorCode.REPLICA_NOT_AVAILABLE
    return error, index, leader, leader_epoch, here, in_sync, offline
