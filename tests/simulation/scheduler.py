"""Who goes on next? Everything that happens is an actor; a round lets those that can act do so, in random order.

Only who may be ready is looked at: whose time has come, whose descriptor has something, who has just acted, and who was
`stir`red by others.

A process is a strand: it runs until it waits, or until it comes to a joint, a place where others may see what it has
done so far. There it may be made to pause, or die. Time stands still while anybody acts, and passes between rounds.
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Protocol

from greenlet import getcurrent, greenlet

from tests.simulation.readiness import Readiness

NS = 1_000_000_000
MS = 1_000_000
FOREVER = 1 << 62
EPOCH_NS = 1_700_000_000 * NS
TRACE_LINES = 50_000


class Killed(BaseException):
    """SIGKILL, as far as Python code can feel it: nothing that is caught by the project's own handlers."""


class Violated(AssertionError):
    """Something that must never be, was."""


class Actor(Protocol):
    """Somebody who may act."""

    def is_ready(self) -> bool:
        """Whether there is something to do now."""

    def act(self) -> None: ...

    @property
    def deadline_ns(self) -> int:
        """When it gets ready by time alone; FOREVER if it does not."""


class Sleeper(Protocol):
    """What a strand waits at."""

    def has_events(self) -> bool: ...


class _Nothing:
    """What a process waits at that does not get the processor."""

    def has_events(self) -> bool:
        return False


_NOTHING = _Nothing()


class Strand:
    """The flow of control of one incarnation of one process."""

    def __init__(self, scheduler: "Scheduler", name: str, run: Callable[[], None], *, home: object = None) -> None:
        self.name = name
        self.home = home
        """The broker that it is a part of."""
        self.process = self
        """A thread is a part of its process."""
        self.deadline_ns = 0
        self.fuse: int | None = None
        """At so many more joints it dies."""
        self.is_dying = False
        self.failure: BaseException | None = None
        self._asleep_at: Sleeper | None = None
        self._scheduler = scheduler
        self._greenlet = greenlet(self._whole_life(run), parent=getcurrent())
        self._was_killed_unborn = False

    def _whole_life(self, run: Callable[[], None]) -> Callable[[], None]:
        def live() -> None:
            try:
                run()
            except Killed:
                return
            except BaseException as error:  # noqa: BLE001 - told to whoever plays the supervisor
                self.failure = error

        return live

    @property
    def is_over(self) -> bool:
        return self._greenlet.dead or self._was_killed_unborn

    def is_ready(self) -> bool:
        asleep_at = self._asleep_at
        if self._greenlet.dead or self._was_killed_unborn:
            return False
        return asleep_at is None or self._scheduler.now_ns >= self.deadline_ns or asleep_at.has_events()

    @property
    def is_asleep(self) -> bool:
        """It waits for something to do, and is not just held up."""
        return self._asleep_at is not None and self._asleep_at is not _NOTHING

    def act(self) -> None:
        self._asleep_at = None
        self.deadline_ns = FOREVER
        self._scheduler.current = self
        try:
            self._greenlet.switch()
        finally:
            self._scheduler.current = None
        if self.is_over:
            self._scheduler.stir(self.home)

    def sleep(self, at: Sleeper, until_ns: int) -> None:
        self._asleep_at, self.deadline_ns = at, until_ns
        self._greenlet.parent.switch()

    def pause(self) -> None:
        self.deadline_ns = 0
        self._greenlet.parent.switch()

    def kill(self) -> None:
        """Here and now, wherever it stands."""
        self.is_dying = True
        if self._greenlet:
            self._greenlet.throw(Killed)
        self._was_killed_unborn = not self._greenlet.dead
        self._scheduler.stir(self.home)
        assert not self._greenlet, f"{self.name} has survived SIGKILL"


class Scheduler:
    """The clock, the dice, and everybody who acts."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now_ns = 1_000 * NS
        self.current: Strand | None = None
        self.pause_chance = 0.0
        self.torn_write: Callable[[], None] | None = None
        self._actors: dict[Actor, float] = {}
        """Each with the chance that it lets a round pass."""
        self._numbers: dict[object, int] = {}
        self._by_number: dict[int, Actor] = {}
        self._next_number = count()
        self._stirred: set[int] = set()
        """Who is looked at in the next round."""
        self._expected: list[tuple[int, int]] = []
        """When somebody's time comes, the earliest first: a heap."""
        self._expected_of: dict[int, int] = {}
        """The entry of each that counts."""
        self._slowness = 0.0
        self._trace: deque[tuple[int, str, str]] = deque(maxlen=TRACE_LINES)
        self.readiness = Readiness()
        self.rounds = 0

    # Time and story.

    @property
    def now_ms(self) -> int:
        return self.now_ns // MS

    @property
    def wall_ms(self) -> int:
        return (EPOCH_NS + self.now_ns) // MS

    def random_source(self, probability: float) -> bool:
        return probability > 0 and self.random.random() < probability

    def note(self, who: str, what: str) -> None:
        self._trace.append((self.now_ns, who, what))

    def story(self, lines: int = TRACE_LINES) -> str:
        rows = list(self._trace)[-lines:]
        return "\n".join(f"{(at - 1_000 * NS) / NS:10.6f} {who:<14} {what}" for at, who, what in rows)

    # Actors.

    def add(self, actor: Actor) -> None:
        if actor not in self._actors:
            number = self._numbers[actor] = next(self._next_number)
            self._by_number[number] = actor
            self._stirred.add(number)
        self._actors[actor] = self._speed()

    def remove(self, actor: Actor) -> None:
        if self._actors.pop(actor, None) is not None:
            number = self._numbers.pop(actor)
            del self._by_number[number]
            self._stirred.discard(number)
            self._expected_of.pop(number, None)

    def stir(self, actor: object) -> None:
        """Something was done that may make it ready, or may make it so earlier."""
        number = self._numbers.get(actor)
        if number is not None:
            self._stirred.add(number)

    def shuffle_speeds(self, slowness: float) -> None:
        """Some are slow for a while, and others are not."""
        self._slowness = slowness
        for actor in self._actors:
            self._actors[actor] = self._speed()

    def _speed(self) -> float:
        slowness = self._slowness
        return self.random.choice((0.0, 0.0, slowness / 2, slowness)) if slowness else 0.0

    def round(self) -> bool:
        """Let everybody act who can; False when nobody could."""
        ready = self._ready()
        if not ready:
            return False
        self.rounds += 1
        self.random.shuffle(ready)
        for actor in ready:
            slowness = self._actors.get(actor)
            if slowness is None or (slowness and self.random.random() < slowness):
                continue
            if actor.is_ready():
                actor.act()
                self.stir(actor)
        self.now_ns += self.random.choice((0, 0, 1_000, 50_000, 1_100_000))
        return True

    def _ready(self) -> list[Actor]:
        """In the order in which they were added. Who is not is forgotten until something stirs it."""
        stirred = self._stirred
        for actor in self.readiness.look():
            self.stir(actor)
        while self.next_deadline_ns() <= self.now_ns:
            _, number = heappop(self._expected)
            del self._expected_of[number]
            stirred.add(number)
        ready = []
        for number in sorted(stirred):
            actor = self._by_number[number]
            if actor.is_ready():
                ready.append(actor)
            else:
                stirred.discard(number)
                self._expect(number, actor.deadline_ns)
        self.readiness.forget()
        return ready

    def _expect(self, number: int, deadline_ns: int) -> None:
        if self._expected_of.get(number) != deadline_ns and deadline_ns != FOREVER:
            self._expected_of[number] = deadline_ns
            heappush(self._expected, (deadline_ns, number))

    def next_deadline_ns(self) -> int:
        """Of those that nothing has stirred."""
        while self._expected:
            deadline_ns, number = self._expected[0]
            if self._expected_of.get(number) == deadline_ns:
                really_ns = self._by_number[number].deadline_ns
                if really_ns == deadline_ns:
                    return deadline_ns
                del self._expected_of[number]
                self._expect(number, really_ns)
            else:
                heappop(self._expected)
        return FOREVER

    # What strands come by.

    def joint(self, what: str) -> bool:
        """Others may see now what was done so far, or what comes next may be their doing.

        True where the strand is to die in the middle of what it does next; it dies at this joint unless the caller
        has a way to.
        """
        strand = self.current
        if strand is None:
            return False
        if strand.is_dying:
            raise Killed
        if strand.fuse is not None:
            strand.fuse -= 1
            if strand.fuse <= 0:
                self.die(what)
        if self.pause_chance and self.random.random() < self.pause_chance:
            self._hold_up(strand, what)
        return False

    def _hold_up(self, strand: Strand, what: str) -> None:
        """Until the next round, as a rule; now and then for so long that much happens meanwhile."""
        delay_ms = self.random.choice((0, 0, 0, 0, 0, 0, 5, 50, 500))
        self.note(strand.name, f"is held up{f' for {delay_ms} ms' if delay_ms else ''}: {what}")
        if delay_ms:
            strand.sleep(_NOTHING, self.now_ns + delay_ms * MS)
        else:
            strand.pause()

    @contextmanager
    def unnoticed(self) -> Iterator[None]:
        """What looks from outside passes no joint."""
        current, self.current = self.current, None
        try:
            yield
        finally:
            self.current = current

    def is_last_joint(self) -> bool:
        """The next joint is the end of the strand that acts."""
        return self.current is not None and self.current.fuse == 1

    def die(self, what: str) -> None:
        strand = self.current
        assert strand is not None, "nobody acts"
        self.note(strand.name, f"dies: {what}")
        strand.is_dying = True
        raise Killed

    def sleep(self, at: Sleeper, timeout_s: float | None) -> None:
        strand = self.current
        assert strand is not None, "only a process waits"
        self.joint("waits")
        strand.sleep(at, FOREVER if timeout_s is None else self.now_ns + int(timeout_s * NS))


class Timers:
    """What happens at its time: the supervisor's doings and the faults."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._number = 0

    def __len__(self) -> int:
        return len(self._due)

    def after(self, delay_ns: int, action: Callable[[], None]) -> None:
        self._number += 1
        self._due.append((self._scheduler.now_ns + delay_ns, self._number, action))
        self._due.sort(key=lambda row: row[:2])
        self._scheduler.stir(self)

    @property
    def deadline_ns(self) -> int:
        return self._due[0][0] if self._due else FOREVER

    def is_ready(self) -> bool:
        return self.deadline_ns <= self._scheduler.now_ns

    def act(self) -> None:
        _, _, action = self._due.pop(0)
        action()

    def clear(self) -> None:
        self._due.clear()
