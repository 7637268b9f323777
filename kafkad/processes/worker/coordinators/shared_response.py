"""A response that reads all shards of this worker: created in steps between loop passes."""

from collections.abc import Generator
from typing import Protocol

from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.processes.runtime.peers import Sender
from kafkad.processes.runtime.turns import STEP_S, Turns


class Reader(Protocol):
    """Reads all shards of this worker."""

    def steps(self) -> Generator[None, None, bytes]: ...


class SharedResponse:
    """One at a time: requests that arrive while it is created get the same response.

    The steps of `reader` yield after each step, and return the frame for all requesters.
    """

    def __init__(self, reader: Reader, sender: Sender) -> None:
        self._reader = reader
        self._sender = sender
        self._requesters: set[ProcessKey] = set()
        self._turns = Turns()

    @property
    def is_busy(self) -> bool:
        return bool(self._requesters)

    def request(self, peer: ProcessKey) -> None:
        if not self._requesters:
            self._turns.add(0, self._create())
        self._requesters.add(peer)

    def tick(self, budget_s: float = STEP_S) -> None:
        """Continue for about `budget_s`."""
        if self._requesters:
            self._turns.work(budget_s)

    def _create(self) -> Generator[None, None, None]:
        frame = yield from self._reader.steps()
        requesters, self._requesters = self._requesters, set()
        for peer in requesters:
            self._sender.send(peer, frame)
