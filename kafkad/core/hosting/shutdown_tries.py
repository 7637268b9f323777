"""When has a broker that is about to stop done what it can for the partitions that it leads?

As in Apache Kafka (KafkaServer.controlledShutdown) it asks the controller a few times; soon again where no controller
answers. It waits for no partition whose other replicas are all gone, and not for a coordination store that is away:
until that is back nobody can be elected.

The response to ControlledShutdown may overtake the LeaderAndIsr request with the new leaders. Until that request is
applied, a Produce with acks=all is pending that no follower completes any more.
"""

from collections.abc import Sequence

from kafkad.core.cluster.control_requests import ControlledShutdownResponse, RemainingPartition
from kafkad.core.controller.image import MetadataImage
from kafkad.core.errors import ErrorCode

NOBODY_PAUSE_MS = 500
"""Before the next try when no controller answers: one may just be elected."""
AWAY_MS = 3_000
"""How long it goes on without the store and without a word from the controller: another broker may have a connection to
the store, and be the controller.
"""
LEADERS_MS = 5_000
"""How long after the response to ControlledShutdown it waits for LeaderAndIsr requests with the new leaders."""


class ShutdownTries:
    """`tries` and `pause_ms` as controlled.shutdown.max.retries and .retry.backoff.ms."""

    def __init__(self, tries: int, pause_ms: int, now_ms: int) -> None:
        self.is_over = tries <= 0
        self.outcome = "no try is allowed" if self.is_over else ""
        """For the log, when it is over."""
        self.next_try_ms: int | None = None if self.is_over else now_ms
        """None while a request is under way, and when it is over."""
        self._tries = tries
        self._pause_ms = pause_ms
        self._gives_up_ms = now_ms + tries * pause_ms
        self._is_heard = False
        """Whether the controller has answered, and was not asked again."""
        self.away_until_ms: int | None = None
        """Until when it goes on while the store is away; None: it is there, or the controller is."""
        self._leaders_until_ms: int | None = None
        """Until when it waits for LeaderAndIsr requests; None: the controller has not elected other leaders yet."""
        self._stays: frozenset[tuple[str, int]] = frozenset()
        """Partitions that this broker leads until it ends, although they have other replicas."""
        self._elected = ""
        """The outcome when the new leaders are known."""

    def began_try(self) -> None:
        self.next_try_ms, self._is_heard = None, False

    def looked(self, now_ms: int, *, has_store: bool) -> None:
        """`has_store`: this broker has a connection to the store, and is registered. To be called whenever that may
        have changed, and at `next_deadline_ms`.
        """
        if has_store or self._is_heard or self.is_over:
            self.away_until_ms = None
        elif self.away_until_ms is None:
            self.away_until_ms = now_ms + AWAY_MS
        elif now_ms >= self.away_until_ms:
            self._end("given up: the coordination store is away, or the broker is not registered there")

    @property
    def next_deadline_ms(self) -> int | None:
        return _first(self.next_try_ms, self.waits_until_ms)

    @property
    def waits_until_ms(self) -> int | None:
        """When it ends if nothing comes; None: not before the next try."""
        return _first(self.away_until_ms, self._leaders_until_ms)

    def answered(
        self, response: ControlledShutdownResponse | None, image: MetadataImage, broker_id: int, now_ms: int
    ) -> None:
        """None: the controller did not answer. What comes when it is over changes nothing."""
        if self.is_over:
            return
        if response is None or response.error_code is ErrorCode.NOT_CONTROLLER:
            self._resume("no controller answers", now_ms, min(self._pause_ms, NOBODY_PAUSE_MS))
            return
        self._is_heard, self.away_until_ms = True, None
        self._tries -= 1
        if response.error_code is not ErrorCode.NONE:
            self._resume(f"the controller refuses: {response.error_code.name}", now_ms, self._pause_ms)
            return
        remaining = response.remaining_partitions
        stuck = [each for each in remaining if _has_nowhere_to_go(each, image, broker_id)]
        if len(stuck) < len(remaining):
            self._resume(f"no in-sync replica can take over yet: {names_of(remaining)}", now_ms, self._pause_ms)
            return
        self._elected = "others lead in its place"
        if stuck:
            self._elected = f"it leads until it ends, as no other replica lives: {names_of(stuck)}"
        self._stays = frozenset((each.topic_name, each.partition_index) for each in stuck)
        self._leaders_until_ms = now_ms + LEADERS_MS
        self.metadata_changed(image, broker_id, now_ms)

    def metadata_changed(self, image: MetadataImage, broker_id: int, now_ms: int) -> None:
        """To be called when LeaderAndIsr requests may have changed the leaders, and at `next_deadline_ms`."""
        if self.is_over or self._leaders_until_ms is None:
            return
        if not self._leads(image, broker_id):
            self._end(self._elected)
        elif now_ms >= self._leaders_until_ms:
            self._end(f"{self._elected}; no LeaderAndIsr request came within {LEADERS_MS} ms")

    def _leads(self, image: MetadataImage, broker_id: int) -> bool:
        """Whether it leads a partition that another replica is to lead."""
        return any(
            row.leader == broker_id and len(row.replicas) > 1 and (topic.name, row.index) not in self._stays
            for topic in image.topics.values()
            for row in topic.partitions
        )

    def _resume(self, why: str, now_ms: int, pause_ms: int) -> None:
        if self._tries <= 0 or now_ms >= self._gives_up_ms:
            self._end(f"given up: {why}")
        else:
            self.next_try_ms = now_ms + pause_ms

    def _end(self, outcome: str) -> None:
        self.is_over, self.outcome = True, outcome
        self.next_try_ms = self.away_until_ms = self._leaders_until_ms = None


def _first(*deadlines: int | None) -> int | None:
    return min((each for each in deadlines if each is not None), default=None)


def _has_nowhere_to_go(at: RemainingPartition, image: MetadataImage, broker_id: int) -> bool:
    topic = image.topics.get(at.topic_name)
    if topic is None or not 0 <= at.partition_index < len(topic.partitions):
        return True
    replicas = topic.partitions[at.partition_index].replicas
    return not any(each in image.brokers for each in replicas if each != broker_id)


def names_of(partitions: Sequence[RemainingPartition]) -> str:
    """For a log line: the first few, and how many others."""
    shown = ", ".join(f"{each.topic_name}-{each.partition_index}" for each in partitions[:5])
    return shown if len(partitions) <= 5 else f"{shown} and {len(partitions) - 5} more"
