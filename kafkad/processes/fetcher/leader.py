"""One leader of followed partitions: the requests to it, and the arena memory of its response.

Memory for the whole response is reserved before the request is sent. The owners that get records of it retain it until
the records are in their logs.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from kafkad.adapters.operating_system.clocks import monotonic_ms
from kafkad.adapters.shared_memory.arena import RESPONSE_SLACK, Arena
from kafkad.adapters.shared_memory.counters import CounterBlock
from kafkad.core.cluster.protocol_versions import ProtocolVersions
from kafkad.core.connections.log_rate_limit import LogRateLimit
from kafkad.core.metrics.catalogue import FETCHER_BYTES, FETCHER_REQUESTS
from kafkad.core.quotas.replication_quota import ReplicaQuota
from kafkad.core.replication.following.leader_fetcher import LeaderFetcher
from kafkad.core.replication.following.requests import FollowerFetch, OffsetQuery
from kafkad.processes.fetcher.owner_orders import NO_EXTENT, OwnerOrders
from kafkad.processes.runtime.broker_connections import BrokerConnections, Destination, Request
from kafkad.wire.api_table import FETCH, LIST_OFFSETS
from kafkad.wire.messages.follower_fetch import (
    WITH_NAMES,
    FetchLimits,
    decode_fetch,
    decode_list_offsets,
    encode_fetch,
    encode_list_offsets,
)
from kafkad.wire.primitives import MalformedRequest

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchesOfAllLeaders:
    """The common state of all leaders of a fetcher process."""

    connections: BrokerConnections
    arena: Arena
    orders: OwnerOrders
    limits: FetchLimits
    broker_id: int
    backoff_ms: int
    quota: ReplicaQuota
    versions: ProtocolVersions
    block: CounterBlock


class Leader:
    """One leader. `tick` it when it `is_due`, when it `is_starved`, and at the deadlines of its `fetcher`."""

    def __init__(self, shared: FetchesOfAllLeaders) -> None:
        self.fetcher = LeaderFetcher(
            shared.backoff_ms, shared.quota, may_use_topic_ids=shared.versions.fetch > WITH_NAMES
        )
        self._shared = shared
        self.destination: Destination | None = None
        """None while the broker is not registered."""
        self.broker_epoch = -1
        """The epoch of this broker in the metadata."""
        self._log_rate_limit = LogRateLimit()
        self._extent = NO_EXTENT
        self._frame_length = 0
        self.is_starved = False
        """Whether the arena had no space for a response."""
        self.is_due = True
        """Whether events were handled since the last tick."""

    def move_to(self, destination: Destination | None) -> None:
        """The leader's broker has a new address."""
        if destination == self.destination:
            return
        before, self.destination = self.destination, destination
        if before is not None:
            self._shared.connections.drop(before)

    def tick(self, now_ms: int) -> None:
        """Send pending orders to the owners, and the next request to the leader."""
        self.is_due = False
        shared = self._shared
        for owner, order in self.fetcher.describe_orders(now_ms):
            shared.orders.add(owner, order)
        if self.destination is None or self._extent != NO_EXTENT:
            return
        extent = shared.arena.reserve(shared.limits.max_bytes + RESPONSE_SLACK)
        self.is_starved = extent is None
        if extent is None:
            return
        request = self.fetcher.next_request(now_ms)
        if request is None:
            shared.arena.release(extent)
            return
        self._extent = extent
        if isinstance(request, FollowerFetch):
            self._fetch(request)
        else:
            self._list_offsets(request)

    def _fetch(self, fetch: FollowerFetch) -> None:
        shared = self._shared
        version, body = encode_fetch(fetch, shared.limits, shared.broker_id, self.broker_epoch, shared.versions.fetch)
        shared.block[FETCHER_REQUESTS] += 1
        self._send(FETCH, version, body, partial(self._fetched, version))

    def _list_offsets(self, queries: list[OffsetQuery]) -> None:
        body = encode_list_offsets(queries, self._shared.broker_id)
        self._send(LIST_OFFSETS, self._shared.versions.list_offsets, body, self._listed)

    def _send(self, api_key: int, version: int, body: bytes, on_reply: Callable[[memoryview], None]) -> None:
        assert self.destination is not None, "checked by the caller"
        request = Request(
            api_key=api_key,
            version=version,
            is_flexible=True,
            body=body,
            on_reply=on_reply,
            on_failure=self._failed,
            allocate=self._place,
        )
        self._shared.connections.send(self.destination, request)

    def _place(self, length: int) -> memoryview:
        """Memory for the whole response. A response longer than requested gets a larger extent, or private memory."""
        self._frame_length = length
        arena = self._shared.arena
        if length > self._shared.limits.max_bytes + RESPONSE_SLACK:
            arena.release(self._extent)
            extent = arena.reserve(length)
            self._extent = NO_EXTENT if extent is None else extent
            if extent is None:
                return memoryview(bytearray(length))
        return arena.view[self._extent : self._extent + length]

    def _fetched(self, version: int, body: memoryview) -> None:
        now_ms = monotonic_ms()
        extent = self._extent
        try:
            if extent == NO_EXTENT:
                raise MalformedRequest(f"the response of {self._frame_length} bytes exceeds the arena")
            response = decode_fetch(body, version, extent + self._frame_length - len(body))
        except MalformedRequest as error:
            self._unreadable(str(error))
            return
        for owner, order in self.fetcher.fetched(response, now_ms):
            self._shared.block[FETCHER_BYTES] += order.length
            self._shared.orders.add(owner, order, extent if order.length else NO_EXTENT)
        self._request_ended(now_ms)

    def _listed(self, body: memoryview) -> None:
        now_ms = monotonic_ms()
        try:
            rows = decode_list_offsets(body)
        except MalformedRequest as error:
            self._unreadable(str(error))
            return
        for owner, order in self.fetcher.offsets_listed(rows, now_ms):
            self._shared.orders.add(owner, order)
        self._request_ended(now_ms)

    def _unreadable(self, reason: str) -> None:
        if self._log_rate_limit.is_due(reason, monotonic_ms()):
            log.warning("cannot read the response of %s, fetching again after a pause: %s", self.destination, reason)
        self._failed(reason)

    def _failed(self, _reason: str) -> None:
        """`BrokerConnections` logs failures of a connection."""
        now_ms = monotonic_ms()
        self.fetcher.failed(now_ms)
        self._request_ended(now_ms)

    def _request_ended(self, now_ms: int) -> None:
        if self._extent != NO_EXTENT:
            self._shared.arena.release(self._extent)
            self._extent = NO_EXTENT
        self.log_problems(now_ms)
        self.is_due = True

    def log_problems(self, now_ms: int) -> None:
        """One line for each partition, cause and minute."""
        problems = self.fetcher.problems
        for problem in problems:
            if self._log_rate_limit.is_due((problem.about, problem.cause), now_ms):
                log.warning("%s (leader: %s)", problem.text, self.destination)
        problems.clear()
