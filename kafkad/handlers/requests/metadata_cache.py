"""Caches the packed topics of Metadata responses until the topic, the live brokers or their listeners change.

Each change of a topic replaces its `Topic` object, so cached bytes are valid for the same object. This module decides
the content of a topic in responses; the wire decides the layout.
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
MAX_FULL_RESPONSES = 4
"""The most cached responses with all topics. Each may be megabytes; clients of the same kind send equal requests."""


class _Form(NamedTuple):
    """The properties of a client that change the bytes of a topic.

    `unreachable` are the live brokers without the client's listener, usually none.
    """

    layout: int
    unreachable: frozenset[int]
    has_listener_error: bool


class _Packed:
    """One topic in its cached forms, usually one or two, each with the error codes of its partitions for the metrics.

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
        self._full_responses: dict[Hashable, tuple[bytes, Sequence[int]]] = {}

    def update(self, image: MetadataImage, broker_id: int) -> None:
        """Invalidate the cache for a new `image`. This broker, `broker_id`, is always live, also if unregistered."""
        if image is self._image:
            return
        self._image = image
        self._full_responses.clear()
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
        cache = self._packed
        out = []
        for topic in topics:
            packed = cache.get(topic.name)
            if packed is None or packed.topic is not topic:
                packed = cache[topic.name] = _Packed(topic)
            content = packed.forms.get(form)
            if content is None:
                content = packed.forms[form] = self._pack(topic, form, broker_id)
            body, errors = content
            if errors:
                count_errors(errors)
            out.append(body)
        return out

    def _form(self, version: int, listener: str, broker_id: int) -> _Form:
        form = self._forms.get((version, listener))
        if form is None:
            brokers = self._image.brokers if self._image is not None else {}
            unreachable = frozenset(without_listener(brokers, listener)) - {broker_id}
            has_listener_error = version >= LISTENER_ERROR_FROM if unreachable else True
            form = self._forms[version, listener] = _Form(layout(version), unreachable, has_listener_error)
        return form

    def full_response(self, key: Hashable) -> bytes | None:
        """The cached response with all topics, the same object for requests with the same `key`."""
        cached = self._full_responses.get(key)
        if cached is None:
            return None
        body, errors = cached
        count_errors(errors)
        return body

    def add_full_response(
        self, key: Hashable, image: MetadataImage, body: bytes, version: int, listener: str, broker_id: int
    ) -> None:
        """Cache a response with all topics, made from `image`, unless the image was replaced meanwhile."""
        if image is self._image and len(self._full_responses) < MAX_FULL_RESPONSES:
            form = self._form(version, listener, broker_id)
            forms = [packed.forms[form] for packed in self._packed.values() if form in packed.forms]
            self._full_responses[key] = body, [error for _, errors in forms for error in errors]

    def _pack(self, topic: Topic, form: _Form, broker_id: int) -> tuple[bytes, list[int]]:
        live, unreachable = self._live, form.unreachable
        rows = [describe_partition(partition, live, broker_id, unreachable) for partition in topic.partitions]
        if form.layout == 0:
            rows = [_of_live_brokers(row, live - unreachable) for row in rows]
        if not form.has_listener_error:
            rows = [_without_listener_error(row) for row in rows]
        body = pack_topic(form.layout, ErrorCode.NONE, topic.name, topic.id.bytes, is_internal(topic.name), rows)
        return body, [row[0] for row in rows if row[0]]


def without_listener(brokers: Mapping[int, Broker], listener: str) -> list[int]:
    """The brokers that a client of this listener can't reach."""
    return [each for each, broker in brokers.items() if all(at.name != listener for at in broker.listeners)]


def describe_partition(
    partition: Partition, live: Collection[int], broker_id: int, unreachable: Collection[int] = ()
) -> PartitionRow:
    """The row of a partition. Without a live leader that the client can reach, the row has no leader and an error.

    Replicas on dead brokers and in failed log directories are offline.
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
    """For versions before 6, which have no LISTENER_NOT_FOUND."""
    return (ErrorCode.LEADER_NOT_AVAILABLE, *row[1:]) if row[0] == ErrorCode.LISTENER_NOT_FOUND else row


def _of_live_brokers(row: PartitionRow, live: Collection[int]) -> PartitionRow:
    """Version 0 names live brokers only, with REPLICA_NOT_AVAILABLE if replicas are missing."""
    error, index, leader, leader_epoch, replicas, isr, offline = row
    live_replicas = tuple(replica for replica in replicas if replica in live)
    in_sync = tuple(replica for replica in isr if replica in live)
    if error == ErrorCode.NONE and (live_replicas != replicas or in_sync != isr):
        error = ErrorCode.REPLICA_NOT_AVAILABLE
    return error, index, leader, leader_epoch, live_replicas, in_sync, offline
