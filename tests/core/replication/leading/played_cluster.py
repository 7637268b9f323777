"""Three brokers and one partition in one thread: a seed decides what happens next, what is delayed and what is lost.

The logs are lists of records, the controller is a state with check-and-set. After every event: what a leader has called
committed is in the log of every in-sync replica, so of whoever may be elected.
"""

from collections.abc import Callable
from functools import partial
from random import Random

from kafkad.core.errors import ErrorCode
from kafkad.core.replication.leading.led_partition import CommittedPartitionState, FollowerProgress, LedPartition
from kafkad.core.types import NO_BROKER_EPOCH

BROKERS = (1, 2, 3)
MAX_LAG_MS = 1_000
Record = tuple[int, int]
"""(leader epoch, number)."""


class Lost(AssertionError):
    """A committed record is not where it must be."""


class PlayedCluster:
    """`make` builds the leader's view, so that tests can give a faulty one.

    Without `names_epochs` no request says a broker's epoch; the controller makes up for it, unless it is `forgetful`.
    """

    def __init__(
        self,
        seed: int,
        make: Callable[..., LedPartition] = LedPartition,
        *,
        names_epochs: bool = True,
        forgetful: bool = False,
    ) -> None:
        self.random = Random(seed)
        self.make = make
        self.names_epochs = names_epochs
        self.forgetful = forgetful
        self.now_ms = 0
        self.number = 0
        self.leader = 1
        self.state = CommittedPartitionState(0, 0, BROKERS, BROKERS)
        self.logs: dict[int, list[Record]] = {broker: [] for broker in BROKERS}
        self.followed: dict[int, tuple[int, int]] = dict.fromkeys(BROKERS, (1, 0))
        """(leader, its epoch) that each broker knows."""
        self.led: dict[int, LedPartition] = {}
        self.marks: dict[int, int] = dict.fromkeys(BROKERS, 0)
        self.committed: list[Record] = []
        self.under_way: list[Callable[[], None]] = []
        self.changes = 0
        self.epochs: dict[int, int] = dict.fromkeys(BROKERS, 7)
        """Which life each broker is in."""
        self.loses_power = seed % 2 == 1
        """In the other half of the seeds other things happen more often."""
        self._lead(1)

    def run(self, events: int) -> None:
        actions = (
            *(self.append, self.append, self.fetch, self.fetch, self.fetch, self.deliver, self.deliver, self.deliver),
            *(self.change_isr, self.change_isr, self.pass_time),
            *(self.advance, self.advance, self.metadata, self.metadata),
        )
        for _ in range(events):
            luck = self.random.random()
            if luck < 0.015:
                self.elect()
            elif luck < 0.03 and self.loses_power:
                self.lose_power()
            else:
                self.random.choice(actions)()
            self.check()

    def check(self) -> None:
        for broker in self.state.isr:
            if self.logs[broker][: len(self.committed)] != self.committed:
                raise Lost(f"broker {broker} lacks some of {len(self.committed)} committed records")

    def _later(self, message: Callable[[], None]) -> None:
        """It arrives some time, or never."""
        if self.random.random() < 0.9:
            self.under_way.insert(self.random.randrange(len(self.under_way) + 1), message)

    def deliver(self) -> None:
        if self.under_way:
            self.under_way.pop()()

    def pass_time(self) -> None:
        self.now_ms += self.random.choice((1, 1, 10, 10, 10, 10, 300, 1_100))

    def _lead(self, broker: int) -> None:
        self.led[broker] = self.make(
            broker, self.state, log_end=len(self.logs[broker]), now_ms=self.now_ms, max_lag_ms=MAX_LAG_MS
        )
        self.followed[broker] = (broker, self.state.leader_epoch)

    def _leads(self, broker: int) -> bool:
        """As far as it knows: a leader that was deposed may not have heard of it."""
        return self.followed[broker][0] == broker and broker in self.led

    def append(self) -> None:
        for broker in BROKERS:
            if self._leads(broker) and self.random.random() < 0.7:
                self.number += 1
                self.logs[broker].append((self.led[broker].state.leader_epoch, self.number))
                self.led[broker].appended(len(self.logs[broker]), self.now_ms)

    def fetch(self) -> None:
        """A follower that knows the leader's epoch gets some records, and asks for what comes after them."""
        follower = self.random.choice(BROKERS)
        leader, epoch = self.followed[follower]
        led = self.led.get(leader)
        if leader == follower or led is None or led.state.leader_epoch != epoch or not self._leads(leader):
            return
        mine, source = self.logs[follower], self.logs[leader]
        same = 0
        while same < min(len(mine), len(source)) and mine[same] == source[same]:
            same += 1
        del mine[same:]
        for _ in range(self.random.randrange(8)):
            if len(mine) < len(source):
                mine.append(source[len(mine)])
        broker_epoch = self.epochs[follower] if self.names_epochs else NO_BROKER_EPOCH
        progress = FollowerProgress(epoch, follower, broker_epoch, len(mine), 0, self.now_ms)
        self._later(lambda: self._progressed(leader, progress))

    def _progressed(self, leader: int, progress: FollowerProgress) -> None:
        if self._leads(leader):
            self.led[leader].fetched(progress, len(self.logs[leader]))

    def advance(self) -> None:
        for broker in BROKERS:
            if self._leads(broker):
                end = self.led[broker].high_watermark(len(self.logs[broker]), 1, self.now_ms, BROKERS)
                self.marks[broker] = max(end, min(self.marks[broker], len(self.logs[broker])))
                known = self.logs[broker][: self.marks[broker]]
                if len(known) > len(self.committed):
                    self.committed = list(known)

    def change_isr(self) -> None:
        for broker in BROKERS:
            if not self._leads(broker):
                continue
            led = self.led[broker]
            isr = led.begin_isr_change(len(self.logs[broker]), self.marks[broker], self.now_ms, BROKERS)
            if isr is not None:
                self._later(partial(self._asked, broker, led.state._replace(isr=isr), led.requested_epochs))

    def _asked(self, broker: int, wanted: CommittedPartitionState, epochs: tuple[int, ...]) -> None:
        code, state = ErrorCode.NONE, self.state
        luck = self.random.random()
        # In the order in which controllers look: who is asked again for what was granted does not say INELIGIBLE.
        if wanted.leader_epoch != state.leader_epoch:
            code = ErrorCode.FENCED_LEADER_EPOCH
        elif wanted.partition_epoch != state.partition_epoch:
            code = ErrorCode.INVALID_UPDATE_VERSION
        elif luck < 0.05 or any(
            epoch not in (-1, self.epochs[each]) for each, epoch in zip(wanted.isr, epochs, strict=True)
        ):
            code = ErrorCode.INELIGIBLE_REPLICA
        elif luck < 0.1:
            # Nobody knows whether the change was made: it was not.
            code = ErrorCode.NETWORK_EXCEPTION
        else:
            self.changes += 1
            state = self.state = wanted._replace(partition_epoch=wanted.partition_epoch + 1)
            if luck > 0.9:
                # The change is made, and whoever asked for it hears of an error.
                code = ErrorCode.NETWORK_EXCEPTION
        response = state if code == ErrorCode.NONE else wanted
        self._later(lambda: self._answered(broker, code, response))

    def _answered(self, broker: int, code: int, state: CommittedPartitionState) -> None:
        if self._leads(broker):
            self.led[broker].isr_change_completed(code, state, self.now_ms)

    def metadata(self) -> None:
        broker = self.random.choice(BROKERS)
        self.followed[broker] = (self.leader, self.state.leader_epoch)
        led = self.led.get(broker)
        if self.leader != broker:
            return
        if led is None or led.state.leader_epoch != self.state.leader_epoch:
            self.marks[broker] = min(self.marks[broker], len(self.logs[broker]))
            self._lead(broker)
        else:
            led.update(self.state, self.now_ms)

    def lose_power(self) -> None:
        """A broker comes back at once, without some of its last records and in a new life. What its former life has
        said may still be on its way. The controller takes it out of the ISR, if there is another.
        """
        broker = self.random.choice(BROKERS)
        if self.state.isr == (broker,):
            return
        log = self.logs[broker]
        del log[self.random.randrange(len(log) + 1) :]
        self.epochs[broker] += 1
        self.followed[broker] = (broker, -1)
        self.led.pop(broker, None)
        self.marks[broker] = min(self.marks[broker], len(log))
        state = self.state
        if broker in state.isr:
            isr = tuple(each for each in state.isr if each != broker)
            self.leader = self.random.choice(isr) if self.leader == broker else self.leader
            self.state = CommittedPartitionState(state.leader_epoch + 1, state.partition_epoch + 1, state.replicas, isr)
        elif not self.names_epochs and not self.forgetful:
            self.state = state._replace(leader_epoch=state.leader_epoch + 1, partition_epoch=state.partition_epoch + 1)

    def elect(self) -> None:
        """One of the in-sync replicas; the one that led may leave the ISR."""
        before, isr = self.leader, self.state.isr
        self.leader = self.random.choice(isr)
        if self.leader != before and self.random.random() < 0.2:
            isr = tuple(broker for broker in isr if broker != before)
        state = self.state
        self.state = state._replace(
            isr=isr, leader_epoch=state.leader_epoch + 1, partition_epoch=state.partition_epoch + 1
        )
