"""The mark, in shared memory, of the request that a thread of the controller process is handling.

If the process dies meanwhile, the network process that sent the request finds the mark, and does not send the request
to the next incarnation (`processes/network/controller_requests.py`): the process may have died of it. Requests that
wait, and those that are answered when other processes have applied their change, are not marked.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from kafkad.adapters.shared_memory.process_registry import ProcessKey, ProcessRegistry
from kafkad.core.controller.store.storing import PartlyStored
from kafkad.core.coordination_store import CoordinationError
from kafkad.core.ports import StorageFailed
from kafkad.wire.primitives import MalformedRequest, UnencodableMessage

LOOP, STORE_THREAD = 0, 1
_NOT_ITS_FAULT = (MalformedRequest, UnencodableMessage, CoordinationError, StorageFailed, PartlyStored)
"""Errors that end no process, or only because of the disk."""


class RequestMark:
    """Of one thread."""

    def __init__(self, registry: ProcessRegistry, thread: int) -> None:
        self._registry = registry
        self._place = thread
        self._is_set = False

    @contextmanager
    def handling(self, sender: ProcessKey, token: int) -> Iterator[None]:
        """Mark the request while the block runs. A bug in the block leaves the mark, as it ends the process."""
        if self._is_set:
            yield
            return
        self._set(sender, token)
        try:
            yield
        except _NOT_ITS_FAULT:
            self._set(sender, 0)
            raise
        self._set(sender, 0)

    def _set(self, sender: ProcessKey, token: int) -> None:
        self._is_set = token != 0
        self._registry.set_handled(sender, self._place, token)
