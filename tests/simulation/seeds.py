"""Runs by number: each in a fresh folder, and what there is to say about one that failed."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.simulation.run import FAITHFUL, Mutation, Run
from tests.simulation.scheduler import Violated

MEMORY = "/dev/shm"
"""Files there cost nothing. What a loss of power would take is not the question of these runs."""
TOLD_LINES = 150


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A run that showed something that must not be."""

    seed: int
    what: str
    story: str

    def __str__(self) -> str:
        told = "\n".join(self.story.splitlines()[-TOLD_LINES:])
        return f"{told}\nseed {self.seed}: {self.what}\nrepeat it with: python -m tests.simulation {self.seed}"


@contextmanager
def _run(seed: int, mutation: Mutation) -> Iterator[Run]:
    folder = Path(tempfile.mkdtemp(prefix="kafkad-simulation-", dir=MEMORY if os.path.isdir(MEMORY) else None))
    try:
        yield Run(seed, folder, mutation)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def play(seed: int, mutation: Mutation = FAITHFUL) -> Failure | None:
    with _run(seed, mutation) as run:
        try:
            run.go()
        except Violated as violated:
            return Failure(seed=seed, what=str(violated), story=run.story())
    return None


def story(seed: int) -> str:
    """All that happened in a run that ends well."""
    with _run(seed, FAITHFUL) as run:
        run.go()
        return run.story()
