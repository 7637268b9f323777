"""AlterReplicaLogDirs: every broker handles it for its own replicas."""

from collections.abc import Callable, Sequence
from functools import partial

from kafkad.adapters.files.log_directory import LogDirectory
from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.core.connections.log_rate_limit import LogRateLimit
from kafkad.core.hosting.hosting import Hosting
from kafkad.core.log.recovery.checkpoints import LOG_START_OFFSETS
from kafkad.handlers.controller.alter_replica_log_dirs import move_replicas
from kafkad.handlers.controller.requests.controller_view import ResponseAfter
from kafkad.handlers.controller.requests.responses import unencodable_response
from kafkad.processes.controller.checkpoints import Checkpoints
from kafkad.processes.controller.ports import Send
from kafkad.processes.controller.replies import Replies, WaitingReply
from kafkad.wire import api_table
from kafkad.wire.primitives import MalformedRequest, UnencodableMessage
from kafkad.wire.processes.controller_messages import AdminReply, AdminRequest, PartitionMoved, pack_message


class DirectoryMoves:
    """`publish` sends metadata changes to the local processes."""

    def __init__(
        self,
        hosting: Hosting,
        checkpoints: Checkpoints,
        directories: Sequence[LogDirectory],
        publish: Callable[[], None],
        replies: Replies,
        send: Send,
    ) -> None:
        self._hosting = hosting
        self._checkpoints = checkpoints
        self._log_dirs = [str(each.path) for each in directories]
        self._publish = publish
        self._send = send
        self._log_rate_limit = LogRateLimit()
        self._replies = replies

    def try_handle(self, peer: ProcessKey, message: AdminRequest, offline: frozenset[int], now_ms: int) -> bool:
        """Handle an AlterReplicaLogDirs request; False for any other. The response waits until the owners have applied
        the moves. `offline` directories have failed.
        """
        context = message.context
        if context.api_key != api_table.ALTER_REPLICA_LOG_DIRS:
            return False
        body = memoryview(message.body)
        try:
            try:
                response = move_replicas(body, context, self._hosting, self._log_dirs, offline)
            except UnencodableMessage as unencodable:
                response = unencodable_response(body, context, unencodable, self._log_rate_limit)
        except MalformedRequest as error:
            self._send(peer, pack_message(AdminReply(message.token, None, str(error))))
            return True
        self._publish()
        if isinstance(response, ResponseAfter):
            reply = partial(self._send, peer, pack_message(AdminReply(message.token, response.body)))
            self._replies.add(WaitingReply(peer, reply, self._hosting.image.version, now_ms + response.timeout_ms))
        else:
            self._send(peer, pack_message(AdminReply(message.token, response)))
        return True

    def completed(self, message: PartitionMoved) -> None:
        """An owner reports the log directory of a moved replica."""
        self._hosting.partition_moved(message.topic_id, message.partition, message.log_dir, message.target)
        # Keep the log start offset in the new directory, also after a crash.
        self._checkpoints.write(self._hosting.image, (LOG_START_OFFSETS,))
        self._publish()
