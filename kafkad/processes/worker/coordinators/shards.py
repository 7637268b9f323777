"""The coordinators of this worker: one shard for each internal partition that it owns, with its runtime.

A shard is loaded when its log is online, in steps between loop passes, and unloaded with its partition. The runtime
performs requests and timers; this module has messages, clocks and logs.
"""

import time
from collections import deque
from collections.abc import Callable, Mapping, Set
from functools import partial
from typing import Any
from uuid import UUID

from kafkad.adapters.shared_memory.counters import CounterBlock
from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.core.coordinator.runtime import Runtime, State
from kafkad.core.coordinator.shard import Caller, Moment, Outcome, TxnMarkersToSend
from kafkad.core.coordinator.timers import DueTimers, ShardTimer
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.log.producers.verification import NO_GUARD
from kafkad.core.metrics.counting import observe_rebalance
from kafkad.core.request_context import BROKER_ITSELF
from kafkad.core.waiting.timing_wheel import TimingWheel
from kafkad.handlers.coordinators.requests.apis_of_coordinators import COORDINATED, reads_only
from kafkad.handlers.requests.failures import failed, log_failure
from kafkad.processes.runtime.peer_log import events_of_coordinators
from kafkad.processes.runtime.peers import Sender
from kafkad.processes.worker.coordinators.coordinator_log import CoordinatorPartition
from kafkad.processes.worker.coordinators.coordinator_responses import InternalResponse, PendingResponses
from kafkad.processes.worker.coordinators.ports import OffsetVerification, TxnMarkersSender
from kafkad.processes.worker.coordinators.shard_kinds import ShardKind
from kafkad.processes.worker.coordinators.shard_loading import Coordinator, ShardLoading, moment_now
from kafkad.processes.worker.outbox import FAILURES, Outbox
from kafkad.processes.worker.owned import OwnedPartition
from kafkad.wire.api_table import LIST_GROUPS, LIST_TRANSACTIONS, OFFSET_COMMIT, TXN_OFFSET_COMMIT
from kafkad.wire.kio_codec import codec
from kafkad.wire.primitives import MalformedRequest
from kafkad.wire.processes.coordinator_messages import CoordinatorReply, CoordinatorRequest, pack_coordination

_LISTS = LIST_GROUPS, LIST_TRANSACTIONS
_NOT_LOADED = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


class CoordinatorShards:
    """`kinds` by internal topic."""

    def __init__(
        self,
        kinds: Mapping[str, ShardKind],
        *,
        now_ms: int,
        block: CounterBlock,
        sender: Sender,
        outbox: Outbox,
    ) -> None:
        self._kinds = kinds
        self.block = block
        self._sender = sender
        self._outbox = outbox
        self.markers: TxnMarkersSender | None = None
        self.offset_verification: OffsetVerification | None = None
        """The parts that write markers and verify transactions; set later, because they depend on this object."""
        self._wheel: TimingWheel[ShardTimer] = TimingWheel(start_ms=now_ms)
        self._due = DueTimers(self._wheel)
        self._by_slot: dict[int, Coordinator] = {}
        self._loading = ShardLoading()
        self._unloading: list[Coordinator] = []
        self._collecting: list[Coordinator] = []
        """Shards with an unwritten batch of this pass."""
        self._listing: deque[tuple[ProcessKey, CoordinatorRequest, bool]] = deque()
        self.responses = PendingResponses(sender)
        self.events = events_of_coordinators()
        self._may_hold: dict[int, Coordinator] = {}
        """Shards that may wait for replicas, by slot: to check all shards took a tenth of each pass."""

    @property
    def is_busy(self) -> bool:
        """Whether the next pass must begin at once."""
        return bool(self._loading or self._unloading or self._due or self._listing or self.responses.is_busy)

    @property
    def next_deadline_ms(self) -> int | None:
        due = (self._wheel.next_expiration_ms(), self._next_held_ms(), self.events.next_ms)
        return min((deadline for deadline in due if deadline is not None), default=None)

    def _next_held_ms(self) -> int | None:
        """When the first wait for lagging replicas times out. With one replica no wait exceeds a pass."""
        if not self._may_hold:
            return None
        self._may_hold = {slot: row for slot, row in self._may_hold.items() if row.runtime.has_deferred}
        held = (row.runtime.next_deadline_ms for row in self._may_hold.values())
        return min((deadline for deadline in held if deadline is not None), default=None)

    # Partitions.

    def online(self, owned: OwnedPartition) -> None:
        """A partition's log is loaded: if it is of an internal topic, load its shard."""
        kind = self._kinds.get(owned.name.topic)
        if kind is None or not owned.leads or owned.slot in self._by_slot:
            return
        partition = CoordinatorPartition(owned, self._outbox)
        runtime: Runtime[Any] = Runtime(
            kind.create_shard(owned.leader_epoch),
            partition,
            kind.codec,
            self._wheel,
            _Recipient(self, owned),
            compression=kind.compression,
            timeout_ms=kind.timeout_ms,
        )
        coordinator = self._by_slot[owned.slot] = Coordinator(partition, runtime)
        self._loading.add(coordinator)

    def configure(self) -> None:
        """The finalized feature levels or the configs of a group have changed."""
        for coordinator in self._by_slot.values():
            self._kinds[coordinator.owned.name.topic].configure(coordinator.runtime.shard)

    def left(self, owned: OwnedPartition) -> None:
        """The partition has left or is not writable: reject new requests, and fail waiting ones in this pass."""
        coordinator = self._by_slot.get(owned.slot)
        if coordinator is not None and coordinator.owned is owned:
            del self._by_slot[owned.slot]
            self._unloading.append(coordinator)
            if self.markers is not None:
                self.markers.forget(owned)

    def role_changed(self, owned: OwnedPartition) -> None:
        """Another role or leader epoch. With the same leader the log is unchanged, and group shards continue."""
        if not (owned.leads and self._outlives_leader_epochs(owned.name.topic)):
            self.left(owned)

    def _outlives_leader_epochs(self, topic: str) -> bool:
        kind = self._kinds.get(topic)
        return kind is not None and kind.outlives_leader_epochs

    def write_batches(self) -> None:
        """All messages of this pass are handled: write the shared batches."""
        if self._collecting:
            collecting, self._collecting = self._collecting, []
            moment = moment_now()
            for coordinator in collecting:
                coordinator.runtime.settle(moment)

    def tick(self, budget_s: float, now_ms: int) -> None:
        """End of a pass: unload shards that left; load shards and run timers for about `budget_s` each."""
        self.events.tick(now_ms)
        if self._unloading:
            self._unload()
        if self._listing:
            self._list(time.monotonic() + budget_s)
        self.responses.encode_queued(budget_s)
        if self._loading:
            for coordinator, error in self._loading.load(budget_s):
                self._abandon(coordinator, error)
        due_ms = self.next_deadline_ms
        if self._due or (due_ms is not None and due_ms <= now_ms):
            self._run_due(moment_now(), budget_s)

    def _unload(self) -> None:
        unloading, self._unloading = self._unloading, []
        for coordinator in unloading:
            self._loading.discard(coordinator)
            if coordinator.runtime.state is not State.UNLOADED:
                coordinator.runtime.unload(moment_now())

    def _abandon(self, coordinator: Coordinator, error: Exception) -> None:
        owned = coordinator.owned
        coordinator.runtime.unload(moment_now())
        if self._by_slot.get(owned.slot) is coordinator:
            del self._by_slot[owned.slot]
        if isinstance(error, FAILURES):
            self._outbox.failed(owned, error)

    def _run_due(self, moment: Moment, budget_s: float) -> None:
        due_ms = self._wheel.next_expiration_ms()
        if self._due or (due_ms is not None and due_ms <= moment.monotonic_ms):
            self._may_hold.update(self._by_slot)
            until = time.monotonic() + budget_s
            self._due.run(moment, lambda: time.monotonic() < until)
        held_ms = self._next_held_ms()
        if held_ms is not None and held_ms <= moment.monotonic_ms:
            for coordinator in list(self._may_hold.values()):
                coordinator.runtime.expire_deferred(moment)

    # Requests.

    def handle(self, peer: ProcessKey, message: CoordinatorRequest, *, is_recovering: bool) -> None:
        """A request from a network process; `is_recovering`: the log of the partition is still in recovery.

        ListGroups and ListTransactions read all shards, so they take turns with other requests.
        """
        if message.context.api_key in _LISTS:
            self._listing.append((peer, message, is_recovering))
        else:
            self._handle_request(peer, message, is_recovering=is_recovering)

    def _list(self, until_s: float) -> None:
        while self._listing:
            peer, message, is_recovering = self._listing.popleft()
            self._handle_request(peer, message, is_recovering=is_recovering)
            if time.monotonic() >= until_s:
                return

    def _handle_request(self, peer: ProcessKey, message: CoordinatorRequest, *, is_recovering: bool) -> None:
        context = message.context
        api = COORDINATED[context.api_key]
        try:
            request = codec(api.name, context.version).decode(memoryview(message.body))
        except MalformedRequest as error:
            self._sender.send(peer, pack_coordination(CoordinatorReply(message.part_id, None, str(error))))
            return
        pending = self.responses.of_client(peer, message, request)
        coordinator = self._by_slot.get(message.slot)
        if coordinator is None or coordinator.owned.short_id != message.short_id:
            pending.reject(_NOT_LOADED if is_recovering else ErrorCode.NOT_COORDINATOR)
            return
        caller = Caller(self.responses.add(pending), context)

        def rule(shard: Any, moment: Moment) -> Outcome[Any]:
            return api.module.handle(request, caller, shard, moment)

        offset_verification = self.offset_verification
        if context.api_key != TXN_OFFSET_COMMIT or offset_verification is None:
            self._run_rule(coordinator, caller, rule, shares_batch=context.api_key == OFFSET_COMMIT)
            return
        # A verification that no commit follows expires by the clock.
        self._outbox.touched(coordinator.owned)
        offset_verification.verify(
            coordinator.owned,
            request,
            context.version,
            partial(self._run_rule, coordinator, caller, rule),
            partial(self.responses.reject, caller.token),
        )

    def run_internal(
        self, slot: int, rule: Callable[[Caller, Any, Moment], Outcome[Any]], completed: Callable[[object], None]
    ) -> None:
        """A request of the broker itself to a shard of this worker; `completed` gets the reply or an error code."""
        coordinator = self._by_slot.get(slot)
        if coordinator is None:
            completed(ErrorCode.NOT_COORDINATOR)
            return
        caller = Caller(self.responses.add(InternalResponse(completed)), BROKER_ITSELF)
        self._run_rule(coordinator, caller, partial(rule, caller))

    def _run_rule(
        self,
        coordinator: Coordinator,
        caller: Caller,
        rule: Callable[[Any, Moment], Outcome[Any]],
        guard: int = NO_GUARD,
        *,
        shares_batch: bool = False,
    ) -> None:
        runtime, context = coordinator.runtime, caller.context
        if runtime.state is not State.ACTIVE:
            code = _NOT_LOADED if runtime.state is State.LOADING else ErrorCode.NOT_COORDINATOR
            self.responses.reject(caller.token, code)
            return
        runtime.begin(caller.token)
        moment = moment_now()
        if not shares_batch:
            runtime.settle(moment)
        elif not runtime.has_collected:
            self._collecting.append(coordinator)
        try:
            outcome = rule(runtime.shard, moment)
        except KafkaError as error:
            runtime.fail(caller.token, error.code)
            return
        except Exception as bug:
            if not reads_only(context.api_key):
                raise
            log_failure(self.responses.log_rate_limit, context, failed(context, bug))
            runtime.fail(caller.token, ErrorCode.UNKNOWN_SERVER_ERROR)
            return
        outcome.host = context.client.address
        self._may_hold[coordinator.owned.slot] = coordinator
        coordinator.partition.guard = guard
        runtime.perform(outcome, moment)
        coordinator.partition.guard = NO_GUARD

    def network_lost(self, network: ProcessKey) -> None:
        """The network process is dead: drop its replies, but finish its requests, as when a client disconnects."""
        self.responses.network_lost(network)
        self._listing = deque(row for row in self._listing if row[0] != network)

    # Events of the logs.

    def advanced(self, owned: OwnedPartition) -> None:
        """The high watermark of a partition may have moved."""
        coordinator = self._by_slot.get(owned.slot)
        if coordinator is not None and coordinator.runtime.has_deferred:
            coordinator.runtime.advanced(moment_now())

    def transaction_ended(self, owned: OwnedPartition, producer_id: int, is_commit: bool, offset: int) -> None:
        """A marker was appended to a partition; in __consumer_offsets it commits or drops pending offsets."""
        coordinator = self._by_slot.get(owned.slot)
        if coordinator is not None:
            coordinator.runtime.transaction_ended(producer_id, is_commit, offset)

    def markers_written(self, slot: int, transactional_id: str, producer_epoch: int) -> None:
        """All markers that the shard in `slot` ordered for a transaction are written."""
        coordinator = self._by_slot.get(slot)
        if coordinator is not None and coordinator.runtime.state is State.ACTIVE:
            self._may_hold[slot] = coordinator
            coordinator.runtime.markers_written(transactional_id, producer_epoch, moment_now())

    def topics_deleted(self, ids: Mapping[str, Set[UUID]]) -> None:
        """These topics were deleted (all ids by name): shards remove their state."""
        moment = moment_now()
        for slot, row in list(self._by_slot.items()):
            if row.runtime.state is State.ACTIVE:
                self._may_hold[slot] = row
                row.runtime.settle(moment)
                outcome = self._kinds[row.owned.name.topic].topics_deleted(row.runtime.shard, ids, moment)
                row.runtime.perform(outcome, moment)

    def serving(self) -> list[Coordinator]:
        """The coordinators with a loaded shard."""
        return [row for row in self._by_slot.values() if row.runtime.state is State.ACTIVE]

    def order_markers(self, owned: OwnedPartition, requested: TxnMarkersToSend) -> None:
        assert self.markers is not None
        self.markers.add(owned, requested)


class _Recipient:
    """See `Recipient`: one for each shard."""

    def __init__(self, coordinator_shards: CoordinatorShards, owned: OwnedPartition) -> None:
        self.reply = coordinator_shards.responses.reply
        self.fail = coordinator_shards.responses.reject
        self._coordinator_shards = coordinator_shards
        self._owned = owned

    def order_markers(self, requested: TxnMarkersToSend) -> None:
        self._coordinator_shards.order_markers(self._owned, requested)

    def log_line(self, line: str, host: str) -> None:
        self._coordinator_shards.events.log(host or "timers", moment_now().monotonic_ms, "%s", line)

    def rebalanced(self, elapsed_ms: int) -> None:
        observe_rebalance(self._coordinator_shards.block, elapsed_ms)
