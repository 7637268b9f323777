"""A producer that commits the offset of what it has read in each transaction, as Streams with exactly-once does.

The offset in a group is that of its last transaction that was committed: none goes back or vanishes, none of an aborted
transaction is ever seen, and the records of a transaction share the fate of its offset.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.simulation import txn_requests
from tests.simulation.cluster.clients import ClusterTransactor
from tests.simulation.offsets import find_group, is_found
from tests.simulation.requests import Partition
from tests.simulation.scheduler import Violated
from tests.simulation.sockets import Port
from tests.simulation.transactions import Outcome

Leads = Callable[[Port, Partition], bool]
"""Whether it is the broker at this port that leads, as far as it knows itself, too."""
NOWHERE = -1
"""Nothing was committed yet."""


class ClusterForwarder(ClusterTransactor):
    """Transaction n commits offset n, for one partition and in a group of its own."""

    def __init__(self, *args: Any, source: Partition, groups: Partition, leads: Leads, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._group = f"forwarded-{self.number}"
        self._source, self._groups = source, groups
        self._leads = leads
        self._is_found = self._has_looked = False
        self._sent: set[int] = set()
        self._unanswered: Counter[int] = Counter()
        """Offsets whose answer was lost: nothing fences them within their epoch, so they may come through later."""

    @property
    def is_done(self) -> bool:
        """It has looked once more after the last transaction."""
        return super().is_done and self._has_looked

    def _initialize(self) -> None:
        if self._is_found:
            super()._initialize()
        else:
            self._ask(
                "find the group",
                lambda at: find_group(self._group, at),
                is_found,
                self._found,
                self._groups,
            )

    def _found(self) -> None:
        self._is_found = True
        self._then(self._initialize)

    def _finish(self, end: Callable[[], None]) -> None:
        self._ask(
            f"add {self._group}",
            lambda at: txn_requests.add_offsets(self._id, self._producer, self._group, at),
            txn_requests.read_added_offsets,
            lambda: self._then(lambda: self._send_offset(end)),
        )

    def _send_offset(self, end: Callable[[], None]) -> None:
        offset = self._transaction

        def make(at: int) -> bytes:
            self._sent.add(offset)
            self._unanswered[offset] += 1
            return txn_requests.commit_txn_offset(self._id, self._group, self._producer, self._source, offset, at)

        def read(body: bytes) -> int:
            self._unanswered[offset] -= 1
            return txn_requests.read_txn_offset(body)

        self._ask(f"commit offset {offset}", make, read, lambda: self._then(end), self._groups)

    def _begin(self) -> None:
        if self._left <= 0 or self.scheduler.random.random() < 0.5:
            self._then(self._look)
        else:
            super()._begin()

    def _look(self) -> None:
        counts = False

        def read(body: bytes) -> int:
            error, offset = txn_requests.read_stable_offset(body)
            if not error and counts and self._leads(self._port, self._groups):
                self._is_at(offset)
                self._has_looked = self._left <= 0
            elif not error:
                return txn_requests.NOT_COORDINATOR
            return error

        def tick() -> None:
            if not self.is_done:
                super(ClusterForwarder, self)._begin()

        self._ask(
            "fetch the offset",
            lambda at: txn_requests.fetch_stable_offset(self._group, self._source, at),
            read,
            tick,
            self._groups,
        )
        counts = self._leads(self._port, self._groups)

    def _is_at(self, offset: int) -> None:
        outcomes = {n: self._ledger.outcomes[self.number, n] for n in self._sent}
        committed = max((n for n, outcome in outcomes.items() if outcome is Outcome.COMMITTED), default=NOWHERE)
        unknown = {n for n, outcome in outcomes.items() if outcome is Outcome.COMMITTING and n > committed}
        self.note(f"is at {offset}")
        lost = +self._unanswered
        if offset in lost:
            return
        if offset != committed and offset not in unknown:
            what = f"{outcomes[offset].value}" if offset in outcomes else "never sent"
            raise Violated(f"{self.name} is at {offset}, {what}: committed was {committed}, maybe {sorted(unknown)}")
        for n in () if lost else unknown:
            # Whether it is committed shows in the offset.
            self._ledger.outcomes[self.number, n] = Outcome.COMMITTED if n <= offset else Outcome.ABORTED
