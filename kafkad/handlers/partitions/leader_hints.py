"""The current leaders that Produce and Fetch responses contain beside NOT_LEADER_OR_FOLLOWER (KIP-951)."""

from collections.abc import Iterable
from uuid import UUID

from kafkad.core.controller.image import NO_LEADER
from kafkad.core.errors import ErrorCode
from kafkad.core.request_context import RequestContext
from kafkad.handlers.partitions.fetch_measure import Measure
from kafkad.handlers.requests.broker_rows import broker_rows
from kafkad.handlers.requests.broker_view import BrokerView
from kafkad.wire.messages.leader_hints import FETCH_FROM, LeaderHints, PartitionOf

_UNKNOWN = (NO_LEADER, -1)
_NOT_LED_HERE = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


def leader_hints(partitions: Iterable[PartitionOf], context: RequestContext, view: BrokerView) -> LeaderHints | None:
    """The leaders of these partitions in this broker's metadata; None for no partitions."""
    leaders = {(topic, partition): _leader_of(topic, partition, view) for topic, partition in partitions}
    if not leaders:
        return None
    named = {leader for leader, _epoch in leaders.values()}
    return LeaderHints(leaders, [row for row in broker_rows(context, view) if row[0] in named])


def _leader_of(topic: str | bytes, partition: int, view: BrokerView) -> tuple[int, int]:
    image = view.image
    topic_image = image.topics.get(topic) if isinstance(topic, str) else image.topic_by_id(UUID(bytes=topic))
    if topic_image is None or not 0 <= partition < len(topic_image.partitions):
        return _UNKNOWN
    row = topic_image.partitions[partition]
    return row.leader, row.leader_epoch


def hints_of_fetch(measure: Measure, context: RequestContext, view: BrokerView) -> LeaderHints | None:
    """For the partitions of a fetch that this broker does not lead."""
    if not measure.is_urgent or context.version < FETCH_FROM:
        return None
    return leader_hints((result.row.key for result in measure.results if result.error in _NOT_LED_HERE), context, view)
