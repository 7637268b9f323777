"""The packed topics of Metadata responses, kept for as long as the topic, the live brokers and their listeners are the
same.

An image replaces a `Topic` whenever anything about it changes, so the identity of the object says whether its bytes are
still valid. This module decides what clients see of a topic; the wire decides the layout.
"""

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import NamedTuple

from kafkad.core.controller.image import NO_LOG_DIR, NO_SLOT, Broker, MetadataImage, Partition, Topic
from kafkad.core.controller.topics.names import is_internal
from kafkad.core.errors import ErrorCode
from kafkad.core.types import NO_LEADER
from kafkad.wire.error_counts import count_errors
from kafkad.wire.messages.metadata import PartitionRow, layout, pack_topic

LISTENER_ERROR_FROM = 6
"""The first version whose clients know LISTENER_NOT_FOUND."""
WHOLE_RESPONSES = 4
"""Cached answers with all topics. Each may be megabytes, and clients of the same kind send the same request."""


class _Form(NamedTuple):
    """What the bytes of a topic depend on, beside the topic and the live brokers.

    `unreachable` are the live brokers without the listener of the client, mostly none.
    """

    layout: int
    unreachable: frozenset[int]
    knows_listener_error: bool


class _Packed:
    """One topic in the forms that were needed so far, mostly one or two; each with the error codes of its partitions,
    which are counted for each answer.

    Mutable and slotted: there is one for each topic.
    """

    __slots__ = ("forms", "topic")

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.forms: dict[_Form, tuple[bytes, list[int]]] = {}


class MetadataCache:
    """The cache of one process."""

    def __init__(self) -> None:
        self._packed: dict[str, _Packed] = {}
        self._live: frozenset[int] = frozenset()
        self._image: MetadataImage | None = None
        self._forms: dict[tuple[int, str], _Form] = {}
        """By version and listener."""
        self._whole: dict[Hashable, tuple[bytes, Sequence[int]]] = {}

    def follow(self, image: MetadataImage, broker_id: int) -> None:
        """Drop topics that are not in `image` any more. `broker_id` is this broker: it is live, registered or not."""
        if image is self._image:
            return
        self._image = image
        self._whole.clear()
        self._forms.clear()
        live = frozenset(image.brokers) | {broker_id}
        if live != self._live:
            self._live = live
            self._packed.clear()
        elif len(self._packed) > len(image.topics):
            self._packed = {name: each for name, each in self._packed.items() if name in image.topics}

    def topics(self, topics: Collection[Topic], version: int, listener: str, broker_id: int) -> list[bytes]:
        """Each topic without its last fields, packed for a client of `version` on this listener."""
        form = self._form(version, listener, broker_id)
        known = self._packed
        out = []
        for topic in topics:
            packed = known.get(topic.name)
            if packed is None or packed.topic is not topic:
                packed = known[topic.name] = _Packed(topic)
            found = packed.forms.get(form)
            if found is None:
                found = packed.forms[form] = self._pack(topic, form, broker_id)
            body, errors = found
            if errors:
                count_errors(errors)
            out.append(body)
        return out

    def _form(self, version: int, listener: str, broker_id: int) -> _Form:
        known = self._forms.get((version, listener))
        if known is None:
            brokers = self._image.brokers if self._image is not None else {}
            unreachable = frozenset(without_listener(brokers, listener)) - {broker_id}
            knows = version >= LISTENER_ERROR_FROM if unreachable else True
            known = self._forms[version, listener] = _Form(layout(version), unreachable, knows)
        return known

    def whole(self, asked: Hashable) -> bytes | None:
        """The answer about all topics, one object for equal requests: it depends on `asked` and the image."""
        kept = self._whole.get(asked)
        if kept is None:
            return None
        body, errors = kept
        count_errors(errors)
        return body

    def keep_whole(
        self, asked: Hashable, image: MetadataImage, body: bytes, version: int, listener: str, broker_id: int
    ) -> None:
        """Keep such an answer, which was made from `image`; drop it if the image was replaced meanwhile."""
        if image is self._image and len(self._whole) < WHOLE_RESPONSES:
            form = self._form(version, listener, broker_id)
            forms = [packed.forms[form] for packed in self._packed.values() if form in packed.forms]
            self._whole[asked] = body, [error for _, errors in forms for error in errors]

    def _pack(self, topic: Topic, form: _Form, broker_id: int) -> tuple[bytes, list[int]]:
        live, unreachable = self._live, form.unreachable
        rows = [describe_partition(partition, live, broker_id, unreachable) for partition in topic.partitions]
        if form.layout == 0:
            rows = [_of_live_brokers(row, live - unreachable) for row in rows]
        if not form.knows_listener_error:
            rows = [_without_listener_error(row) for row in rows]
        body = pack_topic(form.layout, ErrorCode.NONE, topic.name, topic.id.bytes, is_internal(topic.name), rows)
        return body, [row[0] for row in rows if row[0]]


def without_listener(brokers: Mapping[int, Broker], listener: str) -> list[int]:
    """The brokers that a client of the listener can't reach."""
    return [each for each, broker in brokers.items() if all(at.name != listener for at in broker.listeners)]


def describe_partition(
    partition: Partition, live: Collection[int], broker_id: int, unreachable: Collection[int] = ()
) -> PartitionRow:
    """A partition whose leader is dead, or can't be reached by the client, has none; replicas on dead brokers and in
    failed log directories are offline.
    """
    failed_here = partition.log_dir == NO_LOG_DIR and partition.slot != NO_SLOT
    offline = tuple(
        replica
        for replica in partition.replicas
        if replica not in live or replica in partition.offline or (failed_here and replica == broker_id)
    )
    leader = partition.leader
    error = ErrorCode.NONE
    if leader not in live or (failed_here and leader == broker_id):
        leader, error = NO_LEADER, ErrorCode.LEADER_NOT_AVAILABLE
    elif leader in unreachable:
        leader, error = NO_LEADER, ErrorCode.LISTENER_NOT_FOUND
    return error, partition.index, leader, partition.leader_epoch, partition.replicas, partition.isr, offline


def _without_listener_error(row: PartitionRow) -> PartitionRow:
    """Versions before 6 do not know it."""
    return (ErrorCode.LEADER_NOT_AVAILABLE, *row[1:]) if row[0] == ErrorCode.LISTENER_NOT_FOUND else row


def _of_live_brokers(row: PartitionRow, live: Collection[int]) -> PartitionRow:
    """Version 0 names live brokers only, and says so when some are missing."""
    error, index, leader, leader_epoch, replicas, isr, offline = row
    here = tuple(replica for replica in replicas if replica in live)
    in_sync = tuple(replica for replica in isr if replica in live)
    if error == ErrorCode.NONE and (here != replicas or in_sync != isr):
        error = ErrorCode.REPLICA_NOT_AVAILABLE
    return error, index, leader, leader_epoch, here, in_sync, offline
