"""The course of a simulation: everybody who can goes on; when nobody can, time passes."""

from collections.abc import Callable
from hashlib import sha256

from tests.simulation.scheduler import FOREVER, NS, Scheduler, Violated

PATIENCE_NS = 120 * NS


class Rounds:
    """A run of one broker, or of several. Raises `Violated` where nothing comes to an end."""

    def __init__(self, seed: int, most_rounds: int) -> None:
        self.scheduler = Scheduler(seed)
        self._most_rounds = most_rounds

    def story(self) -> str:
        """What happened, without what differs each time."""
        raise NotImplementedError

    def fingerprint(self) -> str:
        """The same in each repeat: who said what when, and what was drawn in between."""
        return sha256(f"{self.story()}{self.scheduler.random.getstate()}".encode()).hexdigest()

    def _round(self) -> None:
        scheduler = self.scheduler
        if scheduler.rounds > self._most_rounds:
            raise Violated(f"no end after {self._most_rounds} rounds")
        if scheduler.round():
            return
        next_ns = scheduler.next_deadline_ns()
        self._everybody_sleeps(next_ns - scheduler.now_ns)
        if next_ns == FOREVER:
            raise Violated("everybody sleeps for ever")
        scheduler.now_ns = max(scheduler.now_ns, next_ns)

    def _everybody_sleeps(self, _for_ns: int) -> None:
        """What has to hold then."""

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        until_ns = self.scheduler.now_ns + PATIENCE_NS
        while not condition():
            if self.scheduler.now_ns > until_ns:
                raise Violated(f"it did not happen that {what}")
            self._round()
