"""Decides when a controlled shutdown is over (KafkaServer.controlledShutdown in Apache Kafka).

The broker sends the controller a few requests, with short pauses while there is no controller. It does not wait for
partitions whose other replicas are all on failed brokers, nor for a lost connection to the coordination store, because
without the store no leader is elected.

The response to ControlledShutdown may overtake the LeaderAndIsr request with the new leaders. Until that request is
applied, a Produce with acks=all is pending, which no follower completes any more.
"""

from collections.abc import Sequence

from kafkad.core.cluster.control_requests import ControlledShutdownResponse, RemainingPartition
from kafkad.core.controller.image import MetadataImage
from kafkad.core.errors import ErrorCode

NO_CONTROLLER_PAUSE_MS = 500
"""The pause when no controller responds: one may be elected soon."""
WITHOUT_STORE_MS = 3_000
"""The time to continue without the store and without a response of the controller: another broker may be connected to
the store, and be the controller.
"""
NEW_LEADERS_MS = 5_000
"""The time after the response to ControlledShutdown in which LeaderAndIsr requests with the new leaders must come."""


class ShutdownTries:
    """`tries` and `pause_ms` are controlled.shutdown.max.retries and .retry.backoff.ms."""

    def __init__(self, tries: int, pause_ms: int, now_ms: int) -> None:
        self.is_over = tries <= 0
        self.outcome = "no attempts are configured" if self.is_over else ""
        """For the log, when the shutdown is over."""
        self.next_try_ms: int | None = None if self.is_over else now_ms
        """None while a request is pending, and when the shutdown is over."""
        self._tries = tries
        self._pause_ms = pause_ms
        self._abort_ms = now_ms + tries * pause_ms
        self._has_response = False
        """Whether the controller has responded to the last request."""
        self.store_deadline_ms: int | None = None
        """The end of waiting for the store; None: the store is connected, or the controller has responded."""
        self._leaders_deadline_ms: int | None = None
        """The end of waiting for LeaderAndIsr requests; None: the controller has not elected other leaders yet."""
        self._without_successor: frozenset[tuple[str, int]] = frozenset()
        """Partitions that this broker leads until it stops, although they have other replicas."""
        self._elected = ""
        """The outcome once the new leaders are elected."""

    def request_sent(self) -> None:
        self.next_try_ms, self._has_response = None, False

    def tick(self, now_ms: int, *, has_store: bool) -> None:
        """`has_store`: this broker is connected to the store and registered. Called when this may have changed, and at
        `next_deadline_ms`.
        """
        if has_store or self._has_response or self.is_over:
            self.store_deadline_ms = None
        elif self.store_deadline_ms is None:
            self.store_deadline_ms = now_ms + WITHOUT_STORE_MS
        elif now_ms >= self.store_deadline_ms:
            self._end("aborted: no connection to the coordination store, or the broker is not registered")

    @property
    def next_deadline_ms(self) -> int | None:
        return _first(self.next_try_ms, self.wait_deadline_ms)

    @property
    def wait_deadline_ms(self) -> int | None:
        """The end of waiting for the store or for new leaders; None: it waits for neither."""
        return _first(self.store_deadline_ms, self._leaders_deadline_ms)

    def response_received(
        self, response: ControlledShutdownResponse | None, image: MetadataImage, broker_id: int, now_ms: int
    ) -> None:
        """None: the controller did not respond. Ignored when the shutdown is over."""
        if self.is_over:
            return
        if response is None or response.error_code is ErrorCode.NOT_CONTROLLER:
            self._retry("no controller responds", now_ms, min(self._pause_ms, NO_CONTROLLER_PAUSE_MS))
            return
        self._has_response, self.store_deadline_ms = True, None
        self._tries -= 1
        if response.error_code is not ErrorCode.NONE:
            self._retry(f"the controller returns {response.error_code.name}", now_ms, self._pause_ms)
            return
        remaining = response.remaining_partitions
        stuck = [each for each in remaining if _has_no_successor(each, image, broker_id)]
        if len(stuck) < len(remaining):
            self._retry(f"no in-sync replica can lead yet: {names_of(remaining)}", now_ms, self._pause_ms)
            return
        self._elected = "other brokers lead all partitions"
        if stuck:
            self._elected = f"this broker leads until it stops, without another live replica: {names_of(stuck)}"
        self._without_successor = frozenset((each.topic_name, each.partition_index) for each in stuck)
        self._leaders_deadline_ms = now_ms + NEW_LEADERS_MS
        self.metadata_changed(image, broker_id, now_ms)

    def metadata_changed(self, image: MetadataImage, broker_id: int, now_ms: int) -> None:
        """Called when LeaderAndIsr requests may have changed the leaders, and at `next_deadline_ms`."""
        if self.is_over or self._leaders_deadline_ms is None:
            return
        if not self._leads(image, broker_id):
            self._end(self._elected)
        elif now_ms >= self._leaders_deadline_ms:
            self._end(f"{self._elected}; no LeaderAndIsr request within {NEW_LEADERS_MS} ms")

    def _leads(self, image: MetadataImage, broker_id: int) -> bool:
        """Whether it still leads a partition that has another live replica."""
        return any(
            row.leader == broker_id and len(row.replicas) > 1 and (topic.name, row.index) not in self._without_successor
            for topic in image.topics.values()
            for row in topic.partitions
        )

    def _retry(self, cause: str, now_ms: int, pause_ms: int) -> None:
        if self._tries <= 0 or now_ms >= self._abort_ms:
            self._end(f"aborted: {cause}")
        else:
            self.next_try_ms = now_ms + pause_ms

    def _end(self, outcome: str) -> None:
        self.is_over, self.outcome = True, outcome
        self.next_try_ms = self.store_deadline_ms = self._leaders_deadline_ms = None


def _first(*deadlines: int | None) -> int | None:
    return min((each for each in deadlines if each is not None), default=None)


def _has_no_successor(at: RemainingPartition, image: MetadataImage, broker_id: int) -> bool:
    topic = image.topics.get(at.topic_name)
    if topic is None or not 0 <= at.partition_index < len(topic.partitions):
        return True
    replicas = topic.partitions[at.partition_index].replicas
    return not any(each in image.brokers for each in replicas if each != broker_id)


def names_of(partitions: Sequence[RemainingPartition]) -> str:
    """The first few names for a log line, and the number of others."""
    shown = ", ".join(f"{each.topic_name}-{each.partition_index}" for each in partitions[:5])
    return shown if len(partitions) <= 5 else f"{shown} and {len(partitions) - 5} more"
