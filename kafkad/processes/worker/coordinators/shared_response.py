"""An answer that takes a look at every shard of this worker: made in steps, between other work of its loop passes."""

from collections.abc import Callable, Generator

from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.processes.runtime.turns import STEP_S, Turns


class SharedResponse:
    """One at a time: who asks while it is being made gets the same one.

    `steps` yields after each step, and returns the frame for all who have asked.
    """

    def __init__(
        self, steps: Callable[[], Generator[None, None, bytes]], send: Callable[[ProcessKey, bytes], None]
    ) -> None:
        self._steps = steps
        self._send = send
        self._asking: set[ProcessKey] = set()
        self._turns = Turns()

    @property
    def is_busy(self) -> bool:
        return bool(self._asking)

    def wanted(self, peer: ProcessKey) -> None:
        if not self._asking:
            self._turns.add(0, self._making())
        self._asking.add(peer)

    def work(self, budget_s: float = STEP_S) -> None:
        """Go on for about `budget_s`."""
        if self._asking:
            self._turns.work(budget_s)

    def _making(self) -> Generator[None, None, None]:
        frame = yield from self._steps()
        asking, self._asking = self._asking, set()
        for peer in asking:
            self._send(peer, frame)
