"""Runs by number: each in a fresh folder, and what there is to say about one that failed."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest

from tests.simulation.run import FAITHFUL, Mutation, Run
from tests.simulation.scheduler import Violated

MEMORY = "/dev/shm"
"""Files there cost nothing. What a loss of power would take is not the question of these runs."""
TOLD_LINES = 150


class Playable(Protocol):
    """One seed of something."""

    def go(self) -> None: ...
    def story(self) -> str: ...
    def fingerprint(self) -> str: ...


Make = Callable[[int, Path], Playable]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A run that showed something that must not be."""

    seed: int
    what: str
    story: str
    module: str | None
    """This repeats it, if nothing but the seed decides."""

    def __str__(self) -> str:
        told = "\n".join(self.story.splitlines()[-TOLD_LINES:])
        again = f"repeat it with: python -m {self.module} {self.seed}" if self.module else "only its test repeats it"
        # Lists of failed tests have the first line only.
        return f"seed {self.seed}: {self.what}\n{told}\n{again}"


@contextmanager
def _run(seed: int, make: Make) -> Iterator[Playable]:
    folder = Path(tempfile.mkdtemp(prefix="kafkad-simulation-", dir=MEMORY if os.path.isdir(MEMORY) else None))
    try:
        yield make(seed, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def failure_of(seed: int, make: Make, module: str | None) -> Failure | None:
    with _run(seed, make) as run:
        try:
            run.go()
        except Violated as violated:
            return Failure(seed=seed, what=str(violated), story=run.story(), module=module)
    return None


def fingerprint_of(seed: int, make: Make) -> str:
    """Of a run that ends well."""
    with _run(seed, make) as run:
        run.go()
        return run.fingerprint()


def play(seed: int, mutation: Mutation = FAITHFUL) -> Failure | None:
    module = "tests.simulation" if mutation is FAITHFUL else None
    return failure_of(seed, lambda seed, folder: Run(seed, folder, mutation), module)


def fingerprint(seed: int) -> str:
    return fingerprint_of(seed, Run)


def shows(found: str, play: Callable[[int], Failure | None]) -> Callable[[int], bool]:
    """Whether a seed fails with this."""

    def is_found(seed: int) -> bool:
        failure = play(seed)
        return failure is not None and found in failure.what

    return is_found


def fail_if_violated(failure: Failure | None) -> None:
    if failure is not None:
        pytest.fail(str(failure), pytrace=False)


def tell(arguments: list[str], play: Callable[[int], Failure | None]) -> int:
    """What `python -m` of such runs does: each seed's story if it fails. Returns the exit code."""
    code = 0
    for text in arguments:
        failure = play(int(text))
        if failure is None:
            print(f"seed {text}: nothing was violated", flush=True)
        else:
            print(f"{failure.story}\nseed {text}: {failure.what}", flush=True)
        code = code or failure is not None
    return int(code)
