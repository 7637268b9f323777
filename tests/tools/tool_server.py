"""Kafka's admin tools in one JVM that stays: the same classes and output, without a JVM start for each command."""

import base64
import selectors
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.brokers.java import CLASSES, class_path

_SOURCE = Path(__file__).parent / "java_sources" / "ToolServer.java"
_STOP_TIMEOUT_S = 10


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What one command did, as a process of its own would have shown it."""

    returncode: int
    stdout: bytes
    stderr: bytes


class ToolServer:
    """Commands run one after the other; leaving the context ends the JVM."""

    def __enter__(self) -> Self:
        command = [
            "java",
            "-Xmx256M",
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            *class_path(),
            str(_SOURCE),
        ]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(_STOP_TIMEOUT_S)
        finally:
            self._process.kill()

    def run(self, name: str, *args: str, timeout: float = 90) -> ToolResult:
        """One of Kafka's tools by the name of its script."""
        assert self._process.stdin is not None and self._process.stdout is not None
        words = [base64.b64encode(word.encode()).decode() for word in (CLASSES[name], *args)]
        self._process.stdin.write(" ".join(words).encode() + b"\n")
        self._process.stdin.flush()
        with selectors.DefaultSelector() as readable:
            readable.register(self._process.stdout, selectors.EVENT_READ)
            if not readable.select(timeout):
                self._process.kill()
                raise TimeoutError(f"{name} {args} did not end in {timeout} s")
        answer = self._process.stdout.readline().split()
        if len(answer) != 3:
            raise RuntimeError(f"the JVM of {name} {args} ended with {self._process.wait()}")
        out, err = (b"" if part == b"-" else base64.b64decode(part) for part in answer[1:])
        return ToolResult(int(answer[0]), out, err)
