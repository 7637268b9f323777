"""The smallest shard with every feature: numbered sums, some in transactions, waiting requests, timers, markers."""

from collections.abc import Generator, Hashable
from dataclasses import dataclass

from kafkad.core.coordinator.shard import Caller, Moment, Outcome, Producer, TxnMarkersToSend
from kafkad.core.errors import ErrorCode

WAIT_MS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """`amount` comes to the sum `name`; None begins it anew."""

    name: str
    amount: int | None


class TallyCodec:
    """Key is the name; keys that begin with "?" are of a type that this version does not know."""

    def encode(self, record: Added) -> tuple[bytes, bytes | None]:
        return record.name.encode(), None if record.amount is None else str(record.amount).encode()

    def decode(self, key: bytes, value: bytes | None) -> Added | None:
        if key.startswith(b"?"):
            return None
        return Added(name=key.decode(), amount=None if value is None else int(value))


class TallyShard:
    """`sums` is what the log says; `waiting` may be forgotten by a restart. A timer "+name" adds one."""

    def __init__(self) -> None:
        self.sums: dict[str, int] = {}
        self.undecided: dict[int, list[Added]] = {}
        self.offsets: list[int] = []
        self.last: dict[str, int] = {}
        """By name the offset of what came to it last."""
        self.waiting: dict[str, int] = {}
        self.is_loaded = False

    def replay(self, record: Added, offset: int, producer: Producer | None) -> None:
        self.offsets.append(offset)
        self.last[record.name] = offset
        if producer is not None:
            self.undecided.setdefault(producer.producer_id, []).append(record)
        elif record.amount is None:
            self.sums.pop(record.name, None)
        else:
            self.sums[record.name] = self.sums.get(record.name, 0) + record.amount

    def transaction_ended(self, producer_id: int, is_commit: bool, offset: int) -> None:
        rows = self.undecided.pop(producer_id, [])
        for record in rows if is_commit else []:
            self.replay(record, offset, None)

    def loaded(self, moment: Moment) -> Generator[Outcome[Added], None, Outcome[Added]]:
        yield Outcome(timers=[("+early", moment.monotonic_ms)] if "timer" in self.sums else [])
        self.is_loaded = True
        return Outcome()

    def expired(self, key: Hashable, moment: Moment) -> Outcome[Added]:
        assert isinstance(key, str)
        if key.startswith("+"):
            return Outcome(records=[Added(name=key[1:], amount=1)])
        token = self.waiting.pop(key, None)
        if token is None:
            # Whoever released it was refused by the log, and so its timer was not cancelled.
            return Outcome()
        return Outcome(replies=[(token, "too late")], log_lines=[f"{key} waited too long"])

    def unloaded(self) -> Outcome[Added]:
        waiting, self.waiting = self.waiting, {}
        return Outcome(replies=[(token, "gone") for token in waiting.values()])

    def markers_written(self, transactional_id: str, producer_epoch: int, moment: Moment) -> Outcome[Added]:
        return Outcome(records=[Added(name=transactional_id, amount=1)])

    # Requests.

    def add(self, caller: Caller, name: str, amount: int, producer: Producer | None = None) -> Outcome[Added]:
        return Outcome(
            records=[Added(name=name, amount=amount)], producer=producer, replies=[(caller.token, ("added", amount))]
        )

    def share(self, caller: Caller, name: str, amount: int) -> Outcome[Added]:
        """As `add`, in a batch with others."""
        return Outcome(
            records=[Added(name=name, amount=amount)], replies=[(caller.token, ("shared", name))], shares_batch=True
        )

    def read(self, caller: Caller, name: str) -> Outcome[Added]:
        return Outcome(replies=[(caller.token, ("sum", self.sums.get(name, 0)))])

    def add_and_then_read(self, caller: Caller, name: str, amount: int) -> Outcome[Added]:
        """The answer is made when the record is safe."""

        def after(code: ErrorCode, moment: Moment) -> Outcome[Added]:
            return Outcome(replies=[(caller.token, ("after", code, self.sums.get(name, 0)))])

        return Outcome(records=[Added(name=name, amount=amount)], after=after)

    def wait(self, caller: Caller, name: str, moment: Moment) -> Outcome[Added]:
        """Answered by whoever releases `name`, or by the clock. Who comes second sends the first away."""
        previous = self.waiting.get(name)
        self.waiting[name] = caller.token
        timers: list[tuple[Hashable, int | None]] = [(name, moment.monotonic_ms + WAIT_MS)]
        return Outcome(timers=timers, replies=[] if previous is None else [(previous, "replaced")])

    def release(self, caller: Caller, name: str) -> Outcome[Added]:
        token = self.waiting.pop(name, None)
        replies: list[tuple[int, object]] = [(caller.token, "released")]
        if token is not None:
            replies.append((token, "let go"))
        return Outcome(records=[Added(name=name, amount=100)], timers=[(name, None)], replies=replies)

    def decide(self, caller: Caller, name: str) -> Outcome[Added]:
        markers = TxnMarkersToSend(name, 7, 0, 0, True, frozenset({("t", 0)}))
        return Outcome(records=[Added(name=name, amount=0)], replies=[(caller.token, "decided")], markers=[markers])
