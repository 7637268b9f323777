"""The mark, in shared memory, of the request that a thread of the controller process is handling.

If the process dies meanwhile, the network process that sent the request finds the mark. It does not send the request
to the next incarnation (`processes/network/controller_requests.py`), because the request may have caused the crash.
Requests that wait, also for other processes to apply their change, are not marked.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from kafkad.adapters.shared_memory.process_registry import ProcessKey, ProcessRegistry
from kafkad.core.controller.store.storing import PartlyStored
from kafkad.core.coordination_store import CoordinationError
from kafkad.core.ports import StorageFailed
from kafkad.wire.primitives import MalformedRequest, UnencodableMessage

LOOP, STORE_THREAD = 0, 1
_HARMLESS_ERRORS = (MalformedRequest, UnencodableMessage, CoordinationError, StorageFailed, PartlyStored)
"""Errors that the request itself did not cause, or that do not end the process."""


class RequestMark:
    """The mark of one thread."""

    def __init__(self, registry: ProcessRegistry, thread: int) -> None:
        self._registry = registry
        self._index = thread
        self._is_set = False

    @contextmanager
    def handling(self, sender: ProcessKey, token: int) -> Iterator[None]:
        """Mark the request while the block runs. The mark stays after a bug in the block, which ends the process."""
        if self._is_set:
            yield
            return
        self._set(sender, token)
        try:
            yield
        except _HARMLESS_ERRORS:
            self._set(sender, 0)
            raise
        self._set(sender, 0)

    def _set(self, sender: ProcessKey, token: int) -> None:
        self._is_set = token != 0
        self._registry.set_handled(sender, self._index, token)
