"""One leader as this fetcher sees it: a connection, the partitions that it is asked for, and the memory of its answer.

The room for a whole answer is reserved before the request leaves. A part of it is lent to each owner that gets records,
until that owner says that they are in its log.
"""

import logging
from collections.abc import Callable
from functools import partial

from kafkad.adapters.operating_system.clocks import monotonic_ms
from kafkad.adapters.shared_memory.arena import RESPONSE_SLACK, Arena
from kafkad.adapters.shared_memory.counters import CounterBlock
from kafkad.core.cluster.protocol_versions import ProtocolVersions
from kafkad.core.connections.log_rate_limit import LogRateLimit
from kafkad.core.metrics.catalogue import FETCHER_BYTES, FETCHER_REQUESTS
from kafkad.core.quotas.replication_quota import ReplicaQuota
from kafkad.core.replication.following.leader_fetcher import LeaderFetcher
from kafkad.core.replication.following.requests import FollowerFetch, FollowOrder, OffsetQuery
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

_NOWHERE = -1


class Leader:
    """`deliver(owner, order, extent)` takes an order to the owner of the log; records lie in the arena's `extent`."""

    def __init__(
        self,
        connections: BrokerConnections,
        arena: Arena,
        limits: FetchLimits,
        *,
        broker_id: int,
        backoff_ms: int,
        quota: ReplicaQuota,
        versions: ProtocolVersions,
        block: CounterBlock,
        deliver: Callable[[int, FollowOrder, int], None],
        changed: Callable[["Leader"], None],
    ) -> None:
        self.fetcher = LeaderFetcher(backoff_ms, quota, may_use_topic_ids=versions.fetch > WITH_NAMES)
        self._versions = versions
        self._block = block
        self.destination: Destination | None = None
        """None while its address is not known."""
        self.broker_epoch = -1
        """Our own, as the metadata has it."""
        self._connections = connections
        self._arena = arena
        self._limits = limits
        self._broker_id = broker_id
        self._deliver = deliver
        self._changed = changed
        self._log_rate_limit = LogRateLimit()
        self._extent = _NOWHERE
        self._frame_length = 0
        self.is_starved = False
        """There was no room for an answer."""

    def move_to(self, destination: Destination | None) -> None:
        """The leader's broker has this address now."""
        if destination == self.destination:
            return
        before, self.destination = self.destination, destination
        if before is not None:
            self._connections.drop(before)

    def tick(self, now_ms: int) -> None:
        """Ask owners and the leader what is to be asked now."""
        for owner, order in self.fetcher.describe_orders(now_ms):
            self._deliver(owner, order, _NOWHERE)
        if self.destination is None or self._extent != _NOWHERE:
            return
        extent = self._arena.reserve(self._limits.max_bytes + RESPONSE_SLACK)
        self.is_starved = extent is None
        if extent is None:
            return
        wanted = self.fetcher.next_request(now_ms)
        if wanted is None:
            self._arena.release(extent)
            return
        self._extent = extent
        if isinstance(wanted, FollowerFetch):
            self._fetch(wanted)
        else:
            self._list_offsets(wanted)

    def _fetch(self, wanted: FollowerFetch) -> None:
        version, body = encode_fetch(wanted, self._limits, self._broker_id, self.broker_epoch, self._versions.fetch)
        self._block[FETCHER_REQUESTS] += 1
        self._send(FETCH, version, body, partial(self._fetched, version))

    def _list_offsets(self, wanted: list[OffsetQuery]) -> None:
        body = encode_list_offsets(wanted, self._broker_id)
        self._send(LIST_OFFSETS, self._versions.list_offsets, body, self._listed)

    def _send(self, api_key: int, version: int, body: bytes, on_reply: Callable[[memoryview], None]) -> None:
        assert self.destination is not None, "checked by the caller"
        request = Request(
            api_key=api_key,
            version=version,
            is_flexible=True,
            body=body,
            on_reply=on_reply,
            on_failure=self._failed,
            place=self._place,
        )
        self._connections.send(self.destination, request)

    def _place(self, length: int) -> memoryview:
        """Memory for the whole answer. One that is longer than it should be gets more, or private memory at last."""
        self._frame_length = length
        if length > self._limits.max_bytes + RESPONSE_SLACK:
            self._arena.release(self._extent)
            extent = self._arena.reserve(length)
            self._extent = _NOWHERE if extent is None else extent
            if extent is None:
                return memoryview(bytearray(length))
        return self._arena.view[self._extent : self._extent + length]

    def _fetched(self, version: int, body: memoryview) -> None:
        now_ms = monotonic_ms()
        extent = self._extent
        try:
            if extent == _NOWHERE:
                raise MalformedRequest(f"there is no room for its answer of {self._frame_length} bytes")
            response = decode_fetch(body, version, extent + self._frame_length - len(body))
        except MalformedRequest as error:
            self._unreadable(str(error))
            return
        orders = self.fetcher.fetched(response, now_ms)
        for owner, order in orders:
            self._block[FETCHER_BYTES] += order.length
            self._deliver(owner, order, extent if order.length else _NOWHERE)
        self._answered(now_ms)

    def _listed(self, body: memoryview) -> None:
        now_ms = monotonic_ms()
        try:
            rows = decode_list_offsets(body)
        except MalformedRequest as error:
            self._unreadable(str(error))
            return
        for owner, order in self.fetcher.offsets_listed(rows, now_ms):
            self._deliver(owner, order, _NOWHERE)
        self._answered(now_ms)

    def _unreadable(self, reason: str) -> None:
        if self._log_rate_limit.is_due(reason, monotonic_ms()):
            log.warning("nothing is fetched from %s for a while: %s", self.destination, reason)
        self._failed(reason)

    def _failed(self, _reason: str) -> None:
        """What is wrong with a connection is said by whoever makes it."""
        now_ms = monotonic_ms()
        self.fetcher.failed(now_ms)
        self._answered(now_ms)

    def _answered(self, now_ms: int) -> None:
        if self._extent != _NOWHERE:
            self._arena.release(self._extent)
            self._extent = _NOWHERE
        self.complain(now_ms)
        self._changed(self)

    def complain(self, now_ms: int) -> None:
        """One line for each partition, cause and minute."""
        log_rate_limit = self.fetcher.problems
        for complaint in log_rate_limit:
            if self._log_rate_limit.is_due((complaint.about, complaint.cause), now_ms):
                log.warning("%s (leader: %s)", complaint.text, self.destination)
        log_rate_limit.clear()
