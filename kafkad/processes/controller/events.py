"""How the controller process handles messages: each message calls one rule of the core, and the result is sent.

Metadata goes to all processes, replies are sent when it is applied. Slots are freed when no process reads them.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from kafkad.adapters.shared_memory.controller_handover import ControllerHandover
from kafkad.adapters.shared_memory.process_registry import FIRST_INCARNATION, ProcessKey
from kafkad.core.connections.log_rate_limit import LogRateLimit
from kafkad.core.controller.admin import auto_create_topics
from kafkad.core.controller.deltas import BrokerConfigChanged, created_partitions
from kafkad.core.controller.image import MetadataImage
from kafkad.core.controller.producer_ids import ProducerIdControlManager
from kafkad.core.errors import ErrorCode
from kafkad.core.log.recovery.checkpoints import (
    LOG_START_OFFSETS,
)
from kafkad.core.metrics.catalogue import ACTIVE_CONTROLLER
from kafkad.core.ports import NoSpaceLeft
from kafkad.handlers.controller.requests.controller_view import LONGEST_WAIT_MS, ControllerView, ResponseAfter
from kafkad.handlers.controller.requests.pieces import joined, pieces_of, pieces_of_names
from kafkad.handlers.controller.requests.responses import response_to
from kafkad.handlers.controller.requests.timeouts import LONGEST_MS, timed_out
from kafkad.processes.controller.checkpoints import checkpoints_of
from kafkad.processes.controller.gauges import PartitionGauges, count_offline
from kafkad.processes.controller.internal_topics import CreationFailures, warn_of_few_replicas
from kafkad.processes.controller.metadata_publisher import MetadataPublisher
from kafkad.processes.controller.quota_counts import forward
from kafkad.processes.controller.replies import Replies, WaitingReply
from kafkad.processes.controller.startup import Opened, settings_of
from kafkad.processes.controller.store.copies import StoreCopies
from kafkad.processes.controller.tables import LiveTables
from kafkad.processes.controller.topic_deletion import TopicDeletions
from kafkad.processes.runtime.child import ChildContext
from kafkad.processes.runtime.cordoned_dirs import cordoned_dirs
from kafkad.processes.runtime.request_mark import LOOP, RequestMark
from kafkad.processes.runtime.turns import COSTLY_BYTES, Turns
from kafkad.wire.primitives import MalformedRequest
from kafkad.wire.processes.controller_messages import (
    AdminReply,
    AdminRequest,
    Applied,
    AutoCreated,
    AutoCreateRequest,
    ControllerMessage,
    DirectoriesRemoved,
    LogDirFailed,
    LogsMoved,
    PartitionMoved,
    ProducerIdsGranted,
    ProducerIdsRequest,
    QuotaCounts,
    RemovalFailed,
    SnapshotRequest,
    pack_message,
)

log = logging.getLogger(__name__)

Send = Callable[[ProcessKey, bytes], bool]


@dataclass(frozen=True, slots=True)
class _Completed:
    """A handled piece of a request. The next piece waits for `version`; the reply also waits for `deleted`."""

    version: int = 0
    deleted: tuple[str, ...] = ()
    deadline_ms: int = 0


class EveryDirectoryFailed(Exception):
    """The last log directory has failed; the message has its path and the cause."""


class ControllerEvents:
    """One incarnation of the controller, after the store was opened."""

    def __init__(
        self, context: ChildContext, handover: ControllerHandover, opened: Opened, send: Send, now_ms: int
    ) -> None:
        assert context.plugins is not None, "the supervisor loads the plugins before it forks"
        self._context = context
        self._handover = handover
        self._opened = opened
        self._controller = opened.controller
        self._send = send
        self._now_ms = now_ms
        self._block = context.block
        self._first_version = opened.controller.image.version
        self._is_applied = False
        self._creation_failures = CreationFailures()
        self._offline = opened.offline
        self._gauges = PartitionGauges(context.block, context.config.node_id)
        plugins = context.plugins
        self._tables = LiveTables(context.config, frozenset(plugins.cleanup_policies), plugins.topic_configs)
        self._tables.overlay(self._controller.image)
        self._cordon()
        self._name_ignored()
        self._log_rate_limit = LogRateLimit()
        self._view = ControllerView(
            controller=self._controller,
            configs=self._tables,
            random_source=opened.random_source,
            producer_ids=ProducerIdControlManager(opened.store, context.config.node_id),
            log_dirs=context.config.log_dirs.log_dirs,
            offline_dirs=lambda: self._offline,
        )
        self._metadata_publisher = MetadataPublisher(context.registry, send)
        self._replies = Replies()
        self._turns = Turns()
        self._mark = RequestMark(context.registry, LOOP)
        directories = context.log_directories
        self._topic_deletions = TopicDeletions(
            self._controller, context.table, directories, unreferenced_slots=opened.unreferenced_slots
        )
        self._checkpoints = checkpoints_of(context, opened.offline, now_ms, self._directory_failed)
        self._checkpoints.remove_entries(opened.found.missing)
        self._store_copies = StoreCopies(opened.store, directories[0].path, partial(self._directory_failed, 0))

    def begin(self) -> None:
        """Send the first version of the metadata."""
        self._keep()
        self._metadata_publisher.announce(self._first_version)
        self._block[ACTIVE_CONTROLLER] = 1
        count_offline(self._block, self._offline)
        self._gauges.count(self._controller.image)

    # Incoming messages.

    def peer_linked(self, peer: ProcessKey) -> None:
        self._keep()
        if peer.role == "worker":
            self._topic_deletions.worker_linked(peer.index)
        self._metadata_publisher.linked(peer, self._controller.image)

    def peer_ended(self, peer: ProcessKey) -> None:
        self._metadata_publisher.unlinked(peer)
        self._replies.forget(peer)
        if peer.role == "worker":
            self._topic_deletions.worker_ended(peer.index)

    def reload(self, static: Mapping[str, str]) -> None:
        self._tables.reread(static)
        workers = self._controller.settings.workers
        self._controller.settings = settings_of(self._tables.broker, workers=workers)
        self._cordon()

    def _cordon(self) -> None:
        self._controller.cordon(cordoned_dirs(self._tables.broker))

    def handle(self, peer: ProcessKey, message: ControllerMessage, now_ms: int) -> None:
        self._now_ms = now_ms
        match message:
            case AdminRequest():
                self._begin(peer, message.token, len(message.body), self._in_pieces(peer, message))
            case AutoCreateRequest(token, names):
                self._begin(peer, token, sum(map(len, names)), self._create(peer, token, names))
            case SnapshotRequest(have_version):
                self._metadata_publisher.snapshot_requested(peer, have_version, self._controller.image)
            case Applied():
                # This only wakes the process: the end of the pass reads the process registry.
                return
            case ProducerIdsRequest():
                self._grant_producer_ids(peer)
            case LogsMoved(lowered):
                self._checkpoints.moved(now_ms, lowered=lowered)
            case DirectoriesRemoved(topic_id, slots):
                self._topic_deletions.removed(topic_id, slots)
            case RemovalFailed():
                # The worker retries, and the deletion is still pending.
                return
            case QuotaCounts():
                forward(self._context.registry, self._send, peer, message)
            case LogDirFailed(log_dir, cause):
                self._directory_failed(log_dir, cause)
            case PartitionMoved(topic_id, partition, in_dir, target):
                self._controller.partition_moved(topic_id, partition, in_dir, target)
                self._checkpoints.write(self._controller.image, (LOG_START_OFFSETS,))  # it begins there as before
                self._publish(self._controller.image)
            case _:
                raise AssertionError(f"{peer} does not send {type(message).__name__} to a controller")

    def _grant_producer_ids(self, peer: ProcessKey) -> None:
        try:
            block = self._view.producer_ids.allocate_block()
        except NoSpaceLeft as error:
            # No block: the worker requests again for the next client.
            if self._log_rate_limit.is_due("no producer ids", self._now_ms):
                log.error("can't allocate producer ids, rejecting InitProducerId: %s", error)
            block = range(0)
        self._send(peer, pack_message(ProducerIdsGranted(block.start, len(block))))

    def _begin(self, peer: ProcessKey, token: int, size: int, pieces: Iterator[_Completed]) -> None:
        """Handle a small request, or its first piece, at once; queue a large one."""
        work = self._resume(peer, token, size, pieces)
        if size > COSTLY_BYTES:
            self._turns.add(size, work)
        else:
            next(work, None)

    def _resume(self, peer: ProcessKey, token: int, size: int, pieces: Iterator[_Completed]) -> Iterator[None]:
        """Handle one piece of a request; the next one follows when every process has applied this one."""
        yield from ()
        with self._mark.handling(peer, token):
            done = next(pieces, None)
        if done is not None:
            again = partial(self._turns.add, size, self._resume(peer, token, size, pieces))
            self._replies.add(WaitingReply(None, again, done.version, (), done.deadline_ms))

    def _in_pieces(self, peer: ProcessKey, request: AdminRequest) -> Iterator[_Completed]:
        """Pieces after the request's timeout get REQUEST_TIMED_OUT in the response, and are still handled."""
        context = request.context
        api_key, version = context.api_key, context.version
        responses: list[bytes] = []

        def handle(body: Callable[[], bytes]) -> _Completed:
            before = self._controller.image
            response = response_to(memoryview(body()), context, self._view)
            self._publish(before)
            responses.append(response.body if isinstance(response, ResponseAfter) else response)
            return (
                _Completed(response.version, response.deleted) if isinstance(response, ResponseAfter) else _Completed()
            )

        def reply() -> None:
            late = [timed_out(api_key, version, memoryview(body())) for body in pieces.bodies[len(responses) :]]
            body = joined(api_key, version, [*responses, *late])
            self._send(peer, pack_message(AdminReply(request.token, body)))

        try:
            pieces = pieces_of(api_key, version, memoryview(request.body), self._controller)
            if len(pieces.bodies) == 1:
                self._respond(peer, request)
            else:
                timeout_ms = LONGEST_MS if pieces.timeout_ms is None else pieces.timeout_ms
                handled = [partial(handle, body) for body in pieces.bodies]
                yield from self._one_by_one(peer, handled, timeout_ms, reply)
        except MalformedRequest as error:
            self._send(peer, pack_message(AdminReply(request.token, None, str(error))))

    def _one_by_one(
        self, peer: ProcessKey, pieces: Sequence[Callable[[], _Completed]], timeout_ms: int, reply: Callable[[], None]
    ) -> Iterator[_Completed]:
        """`reply` is called when all pieces are handled, or at the timeout; remaining pieces are still handled."""
        timeout_at_ms = self._now_ms + timeout_ms
        deleted: list[str] = []
        is_replied = False
        for at, piece in enumerate(pieces, 1):
            if at > 1 and not is_replied and timeout_at_ms <= self._now_ms:
                is_replied = True
                reply()
            done = piece()
            deleted += done.deleted
            longest_ms = self._now_ms + LONGEST_WAIT_MS
            deadline_ms = longest_ms if is_replied else min(longest_ms, timeout_at_ms)
            if at < len(pieces):
                yield _Completed(done.version, deadline_ms=deadline_ms)
            elif not is_replied:
                self._replies.add(WaitingReply(peer, reply, done.version, tuple(deleted), deadline_ms))

    def _respond(self, peer: ProcessKey, request: AdminRequest) -> None:
        before = self._controller.image
        try:
            response = response_to(memoryview(request.body), request.context, self._view)
        except MalformedRequest as error:
            self._publish(before)
            self._send(peer, pack_message(AdminReply(request.token, None, str(error))))
            return
        self._publish(before)
        if isinstance(response, ResponseAfter):
            frame = pack_message(AdminReply(request.token, response.body))
            self._reply_later(peer, frame, response.version, response.deleted, response.timeout_ms)
        else:
            self._send(peer, pack_message(AdminReply(request.token, response)))

    def _create(self, peer: ProcessKey, token: int, names: list[str]) -> Iterator[_Completed]:
        """Auto-create topics; clients retry after UNKNOWN_TOPIC_OR_PARTITION."""
        codes = dict.fromkeys(names, int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))

        def create(some: list[str]) -> _Completed:
            before = self._controller.image
            results = auto_create_topics(self._controller, some, self._tables, self._opened.random_source)
            created = [name for name in some if name not in before.topics and name in self._controller.image.topics]
            internal = self._controller.settings.internal_topics
            warn_of_few_replicas(created, internal, len(before.brokers))
            self._creation_failures.report(results.values(), internal)
            self._publish(before)
            codes.update((name, int(result.code)) for name, result in results.items())
            return _Completed(self._controller.image.version)

        def reply() -> None:
            self._send(peer, pack_message(AutoCreated(token, codes)))

        pieces = [partial(create, some) for some in pieces_of_names(names, self._controller)]
        yield from self._one_by_one(peer, pieces, LONGEST_WAIT_MS, reply)

    def _reply_later(
        self, peer: ProcessKey, frame: bytes, version: int, deleted: tuple[str, ...], timeout_ms: int
    ) -> None:
        deadline_ms = self._now_ms + min(timeout_ms, LONGEST_WAIT_MS)
        self._replies.add(WaitingReply(peer, partial(self._send, peer, frame), version, deleted, deadline_ms))

    def _directory_failed(self, log_dir: int, cause: str) -> None:
        """A log directory has failed: its partitions are offline until the broker is restarted."""
        if log_dir in self._offline:
            return
        path = self._context.log_directories[log_dir].path
        log.error("log directory %s has failed, its partitions are offline: %s", path, cause)
        self._offline |= {log_dir}
        count_offline(self._block, self._offline)
        self._checkpoints.forget(log_dir)
        self._keep()
        if len(self._offline) == len(self._context.log_directories):
            raise EveryDirectoryFailed(f"every log directory has failed, the last one {path}: {cause}")
        before = self._controller.image
        self._controller.directory_failed(log_dir)
        self._publish(before)

    # Outgoing messages.

    def _publish(self, before: MetadataImage) -> None:
        changes = self._controller.take_deltas()
        if not changes:
            return
        self._keep()
        self._topic_deletions.began(before, changes)
        self._checkpoints.remove_entries(list(created_partitions(changes)))
        self._metadata_publisher.publish(changes)
        if any(isinstance(change, BrokerConfigChanged) for delta in changes for change in delta.changes):
            self._tables.overlay(self._controller.image)
            self._cordon()
        self._checkpoints.moved(self._now_ms)
        self._gauges.changed(changes)
        self._gauges.count(self._controller.image)

    def _name_ignored(self) -> None:
        ignored = ", ".join(self._tables.ignored(self._controller.image))
        if ignored:
            log.warning(
                "ignoring stored dynamic values of %s: these options are static in this version, set them in the file;"
                " kafka-configs --delete-config, or the next change of the broker's configuration, removes them",
                ignored,
            )

    def _keep(self) -> None:
        """Record slots for the next controller of this broker, before they are published."""
        self._handover.keep(self._controller.slots_ever_used, self._offline)

    def tick(self, now_ms: int) -> None:
        """Continue expensive work, and work that waited for other processes or a deadline."""
        self._now_ms = now_ms
        if self._turns:
            self._turns.work()
        applied = self._metadata_publisher.applied()
        if applied >= self._first_version:
            if not self._is_applied:
                self._is_applied = True
                is_first = self._context.incarnation == FIRST_INCARNATION
                self._topic_deletions.complete_earlier_deletions(self._opened.found, is_first_incarnation=is_first)
            self._topic_deletions.acknowledged(applied)
        if self._controller.has_unfinished_deletions:
            for log_dir, cause in self._topic_deletions.finish(self._offline).items():
                self._directory_failed(log_dir, cause)
        if not self._replies.is_empty:
            self._replies.send_ready(applied, self._controller.deletions_under_way(), now_ms)
        self._checkpoints.write_due(self._controller.image, self._now_ms)
        self._store_copies.write_due(self._now_ms)

    @property
    def next_deadline_ms(self) -> int | None:
        if self._turns or self._controller.has_unfinished_deletions:
            return self._now_ms
        deadlines = (
            self._replies.next_deadline_ms,
            self._checkpoints.next_deadline_ms,
            self._store_copies.next_deadline_ms,
        )
        return min((each for each in deadlines if each is not None), default=None)

    def finish(self) -> bool:
        """Write the last checkpoints and end the session; returns whether everything is on disk."""
        failed_before = self._offline
        self._topic_deletions.close()
        self._checkpoints.write_last(self._controller.image)
        self._opened.store.end_session()
        self._store_copies.write()
        self._opened.store.close()
        return self._offline == failed_before
