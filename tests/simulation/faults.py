"""What goes wrong: processes die, disks fill up or fail, the broker is stopped and started, everybody has slow phases.

Faults come one after the other at drawn times, overlapping as they like, until `calm`.
"""

from collections.abc import Callable
from pathlib import Path

from tests.simulation.broker import Broker
from tests.simulation.disk import Trouble
from tests.simulation.scheduler import MS, Scheduler, Timers

MORTAL = ("worker", "worker", "worker", "network", "network", "controller", "cleaner")
"""Who is killed how often."""


class Faults:
    """`left` more of them."""

    def __init__(
        self,
        scheduler: Scheduler,
        broker: Broker,
        directories: list[Path],
        *,
        number: int,
        slowness: float,
        loses_power: bool,
    ) -> None:
        self._scheduler = scheduler
        self._broker = broker
        self._directories = directories
        self._slowness = slowness
        self._loses_power = loses_power
        self._timers = Timers(scheduler)
        self.left = number
        self.has_failed_directory = False
        scheduler.add(self._timers)
        self._plan()

    @property
    def is_over(self) -> bool:
        return not self._timers

    def _plan(self) -> None:
        if self.left > 0:
            delay_ms = self._scheduler.random.choice((1, 5, 20, 50, 100, 500))
            self._timers.after(delay_ms * MS, self._strike)

    def _strike(self) -> None:
        self.left -= 1
        self._scheduler.shuffle_speeds(self._slowness)
        kinds: list[Callable[[], None]] = [self._kill] * 8 + [self._kill_twice, self._full, self._full, self._short]
        kinds += [self._crash, self._restart, self._fail_disk, self._pause]
        if self._loses_power:
            kinds += [self._lose_power] * 6
        self._scheduler.random.choice(kinds)()
        self._plan()

    def _pause(self) -> None:
        """Nothing happens, for longer than long polls wait."""
        self._timers.after(3_000 * MS, lambda: None)

    def _kill(self) -> None:
        self._broker.kill(self._scheduler.random.choice(MORTAL))

    def _kill_twice(self) -> None:
        self._kill()
        self._kill()

    def _crash(self) -> None:
        if self._broker.is_running:
            self._broker.crash()
            self._broker.start()

    def _lose_power(self) -> None:
        """All processes, and what they have written and not synced."""
        if self._broker.is_running:
            self._broker.crash()
            self._broker.ports.disk.lose_power()
            self._broker.start()

    def _restart(self) -> None:
        if self._broker.is_whole:
            self._broker.stop()

    def _full(self) -> None:
        self._trouble(self._scheduler.random.choice(self._directories), Trouble.FULL)

    def _short(self) -> None:
        self._trouble(self._scheduler.random.choice(self._directories), Trouble.SHORT)

    def _fail_disk(self) -> None:
        """Never the first directory, where the store is: without it the broker ends for good."""
        if len(self._directories) > 1:
            self.has_failed_directory = True
            kind = self._scheduler.random.choice((Trouble.BROKEN, Trouble.UNSYNCABLE))
            self._trouble(self._directories[1], kind)

    def _trouble(self, directory: Path, trouble: Trouble) -> None:
        self._scheduler.note("disk", f"{directory.name} suffers from {trouble.value}")
        self._broker.ports.disk.trouble(directory, trouble, free=self._scheduler.random.randint(0, 400))
        self._timers.after(self._scheduler.random.choice((5, 50, 400)) * MS, lambda: self._heal(directory))

    def _heal(self, directory: Path) -> None:
        if self._broker.ports.disk.troubles.pop(str(directory), None):
            self._scheduler.note("disk", f"{directory.name} is well again")

    def keep_up(self) -> None:
        """Whoever has stopped the broker starts it again."""
        if not self._broker.is_running:
            self._broker.start()

    def calm(self) -> None:
        """Peace: what has failed for good is there again after a restart, as far as the broker can tell."""
        self._timers.clear()
        self._scheduler.remove(self._timers)
        self._broker.ports.disk.heal()
        self._scheduler.pause_chance = 0.0
        self._scheduler.shuffle_speeds(0.0)
        self._broker.spare()
        if self.has_failed_directory and self._broker.is_running:
            self._broker.crash()
            self._broker.start()
