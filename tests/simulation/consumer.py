"""A consumer: fetches with or without a session, waits long, goes back now and then, and believes nobody.

What it waits for has to come: a fetch that hangs although somebody was told that there is more is a lost wake-up.
"""

from tests.simulation import requests
from tests.simulation.client import Client
from tests.simulation.requests import EARLIEST, FetchReply, Partition
from tests.simulation.scheduler import Scheduler, Violated
from tests.simulation.sockets import Port
from tests.simulation.truth import Truth

NOT_NOW = {3, 5, 6, 9, 56}
"""Unknown topic, no leader, not the leader, no replica, storage error: the partition is not there at the moment."""
OFFSET_OUT_OF_RANGE, SESSION_ID_NOT_FOUND, INVALID_SESSION_EPOCH = 1, 70, 71


class Consumer(Client):
    """Reads its partitions from their start on, for ever."""

    def __init__(
        self,
        scheduler: Scheduler,
        port: Port,
        truth: Truth,
        *,
        name: str,
        partitions: list[Partition],
        with_session: bool,
        max_wait_ms: int,
        max_bytes: int,
        short_chance: float,
    ) -> None:
        super().__init__(scheduler, port, name, short_chance=short_chance)
        self.positions = dict.fromkeys(partitions, 0)
        self.is_calm = False
        """It goes nowhere but forward any more."""
        self._truth = truth
        self._with_session = with_session
        self._session, self._epoch = 0, 0
        self._told: dict[Partition, int] = {}
        """The positions that the session knows."""
        self._max_wait_ms = max_wait_ms
        self._max_bytes = max_bytes
        self._watermarks: dict[Partition, int] = {}
        self._lost: set[Partition] = set()
        """Whose position has to be asked for."""

    def has_read_everything(self) -> bool:
        return all(at >= self._truth.acknowledged_end(partition) for partition, at in self.positions.items())

    def disconnected(self) -> None:
        self._session, self._epoch = 0, 0
        self._told.clear()
        self._watermarks.clear()
        super().disconnected()

    def step(self) -> None:
        if not self.is_connected:
            self.connect()
        random = self.scheduler.random
        if self.open:
            if not self.is_calm and random.random() < 0.02:
                self.note("hangs up")
                self.hang_up()
            return
        if self._lost:
            self._ask_where(min(self._lost))
            return
        if not self.is_calm and random.random() < 0.1:
            self._go_back()
        self._fetch()

    def _go_back(self) -> None:
        partition = self.scheduler.random.choice(list(self.positions))
        start, end = self._truth.of(partition).deleted_up_to, self.positions[partition]
        if end > start:
            self.positions[partition] = self.scheduler.random.randint(start, end)

    def _ask_where(self, partition: Partition) -> None:
        def answered(body: bytes | None) -> None:
            if body is not None:
                error, offset = requests.read_listed(body)
                if error == 0:
                    self._lost.discard(partition)
                    self.found_start(partition, offset)
                elif error not in NOT_NOW:
                    raise Violated(f"{self.name} got error {error} when it asked where {partition} begins")
                self.wake_in(10 if error else 0)

        self.ask(f"where {partition} begins", lambda at: requests.list_offsets(partition, EARLIEST, at), answered)

    def found_start(self, partition: Partition, offset: int) -> None:
        self.positions[partition] = offset

    def _fetch(self) -> None:
        asked = dict(self.positions)
        changed = {key: at for key, at in asked.items() if self._told.get(key) != at} if self._epoch > 0 else asked
        session, epoch = (self._session, self._epoch) if self._with_session else (0, -1)
        acknowledged = {key: self._truth.acknowledged_end(key) for key in asked}

        def make(correlation: int) -> bytes:
            return requests.fetch(
                changed,
                correlation,
                max_wait_ms=self._max_wait_ms,
                min_bytes=1,
                max_bytes=self._max_bytes,
                session=session,
                epoch=epoch,
            )

        def answered(body: bytes | None) -> None:
            if body is not None:
                self._fetched(requests.read_fetched(body), asked, acknowledged)

        self._told = asked
        self.ask(f"fetch {asked} session {session}/{epoch}", make, answered)

    def _fetched(self, reply: FetchReply, asked: dict[Partition, int], acknowledged: dict[Partition, int]) -> None:
        if reply.error in (SESSION_ID_NOT_FOUND, INVALID_SESSION_EPOCH):
            raise Violated(f"{self.name} got error {reply.error} for its session {self._session}/{self._epoch}")
        if reply.error:
            raise Violated(f"{self.name} got error {reply.error} for all of a fetch")
        if self._with_session and reply.session:
            self._session, self._epoch = reply.session, self._epoch + 1
        pause_ms = 0
        for partition, found in reply.partitions.items():
            if partition not in asked:
                raise Violated(f"{self.name} got {partition}, which it has not asked for")
            position = asked[partition]
            if found.error in NOT_NOW:
                self.note(f"was told error {found.error} for {partition}")
                pause_ms = 20
            elif found.error == OFFSET_OUT_OF_RANGE:
                self._out_of_range(partition, position)
            elif found.error:
                raise Violated(f"{self.name} got error {found.error} at {position} of {partition}")
            else:
                self._check_watermark(partition, found.high_watermark, acknowledged[partition])
                self.positions[partition] = self._truth.of(partition).read(
                    found.records, position, found.high_watermark
                )
                if self.positions[partition] > position:
                    self.note(f"has read {partition} from {position} to {self.positions[partition]}")
        self.wake_in(pause_ms)

    def _check_watermark(self, partition: Partition, high_watermark: int, acknowledged: int) -> None:
        before = self._watermarks.get(partition, 0)
        if high_watermark < before:
            raise Violated(f"{self.name} saw the high watermark of {partition} go from {before} to {high_watermark}")
        if high_watermark < acknowledged:
            raise Violated(
                f"{self.name} was told the high watermark {high_watermark} of {partition} "
                f"when {acknowledged} was acknowledged already"
            )
        self._watermarks[partition] = high_watermark

    def _out_of_range(self, partition: Partition, position: int) -> None:
        if position >= self._truth.of(partition).deleted_up_to:
            raise Violated(f"{self.name} was told that {position} of {partition} is not in the log")
        self._lost.add(partition)

    def check_not_forgotten(self) -> None:
        """Everybody sleeps: is there something that it should have been told?"""
        if not self.open or not self.open[0].name.startswith("fetch") or not self.reads:
            return
        for partition, position in self.positions.items():
            end = self._truth.acknowledged_end(partition)
            if end > max(position, self._truth.of(partition).deleted_up_to):
                raise Violated(f"{self.name} waits at {position} of {partition}, and nobody tells it of {end}")


class Auditor(Consumer):
    """Reads all there is, once, from where each log says that it begins."""

    def __init__(self, scheduler: Scheduler, port: Port, truth: Truth, partitions: list[Partition]) -> None:
        super().__init__(
            scheduler,
            port,
            truth,
            name="auditor",
            partitions=partitions,
            with_session=False,
            max_wait_ms=0,
            max_bytes=1 << 20,
            short_chance=0.0,
        )
        self.is_calm = True
        self.starts: dict[Partition, int] = {}
        self._lost.update(partitions)

    def found_start(self, partition: Partition, offset: int) -> None:
        super().found_start(partition, offset)
        self._truth.of(partition).begin_last_look()
        self.starts[partition] = offset

    def has_read_everything(self) -> bool:
        return not self._lost and all(self._watermarks.get(key) == at for key, at in self.positions.items())
