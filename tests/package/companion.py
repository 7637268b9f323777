"""A program of this machine that runs beside a booted one until it is told to come to its end."""

import subprocess
import sys
from types import TracebackType

from bench.brokers.processes import WITHIN_S
from tests.package.machine import CHECKOUT, Machine


class Companion:
    """`python -m MODULE ARGUMENTS` in the machine's network; entered when it has said `first`."""

    def __init__(self, machine: Machine, module: str, *arguments: str, first: str) -> None:
        self._command = machine.beside(sys.executable, "-m", module, *arguments)
        self._first = first

    def __enter__(self) -> "Companion":
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=CHECKOUT,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if line.strip() != self._first:
            self._process.kill()
            raise AssertionError(line + self._process.stdout.read())
        return self

    def end(self, within: float = WITHIN_S) -> str:
        """Tell it to finish; what it found. Its exit code must be 0."""
        said, _ = self._process.communicate(timeout=within)
        assert self._process.returncode == 0, said
        return said.strip()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
