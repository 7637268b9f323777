"""Where refused clients find the leader: what Produce and Fetch say beside NOT_LEADER_OR_FOLLOWER (KIP-951)."""

from collections.abc import Callable, Iterable
from uuid import UUID

from kafkad.core.controller.image import NO_LEADER
from kafkad.core.errors import ErrorCode
from kafkad.core.request_context import RequestContext
from kafkad.handlers.partitions.fetch_findings import Measure
from kafkad.handlers.requests.broker_rows import broker_rows
from kafkad.handlers.requests.broker_view import BrokerView
from kafkad.wire.messages.leader_hints import FETCH_FROM, LeaderHints, PartitionOf

Hints = Callable[[Iterable[PartitionOf], RequestContext], LeaderHints | None]
"""`leader_hints` with the view of this process."""
_UNKNOWN = (NO_LEADER, -1)
_ELSEWHERE = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


def leader_hints(refused: Iterable[PartitionOf], context: RequestContext, view: BrokerView) -> LeaderHints | None:
    """The leaders of these partitions as this broker knows them; None for no partitions."""
    leaders = {(topic, partition): _leader_of(topic, partition, view) for topic, partition in refused}
    if not leaders:
        return None
    named = {leader for leader, _epoch in leaders.values()}
    return LeaderHints(leaders, [row for row in broker_rows(context, view) if row[0] in named])


def _leader_of(topic: str | bytes, partition: int, view: BrokerView) -> tuple[int, int]:
    image = view.image
    known = image.topics.get(topic) if isinstance(topic, str) else image.topic_by_id(UUID(bytes=topic))
    if known is None or not 0 <= partition < len(known.partitions):
        return _UNKNOWN
    row = known.partitions[partition]
    return row.leader, row.leader_epoch


def hints_of_fetch(measure: Measure, context: RequestContext, hints: Hints) -> LeaderHints | None:
    """For the partitions of a fetch that are refused because this broker does not lead them."""
    if not measure.is_urgent or context.version < FETCH_FROM:
        return None
    return hints((finding.row.key for finding in measure.findings if finding.error in _ELSEWHERE), context)
