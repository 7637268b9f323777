"""Signals as events: the handler only writes a byte to a pipe, which the supervisor's loop reads."""

import os
import signal
from types import FrameType, TracebackType

from kafkad.processes.runtime.child import HANDLED_SIGNALS


class SignalQueue:
    """Between enter and exit, SIGTERM, SIGINT and SIGHUP only write a byte to `fd`."""

    def __init__(self) -> None:
        self.fd, self._write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._before: dict[int, object] = {}
        self._wakeup_before = -1

    def __enter__(self) -> "SignalQueue":
        self._wakeup_before = signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        for number in HANDLED_SIGNALS:
            self._before[number] = signal.signal(number, _do_nothing)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        signal.set_wakeup_fd(self._wakeup_before)
        self.close()

    def drain(self) -> list[signal.Signals]:
        try:
            return [signal.Signals(number) for number in os.read(self.fd, 512)]
        except BlockingIOError:
            return []

    def close(self) -> None:
        os.close(self.fd)
        os.close(self._write_end)


def _do_nothing(number: int, frame: FrameType | None) -> None:
    """Does nothing: Python writes the byte to the pipe, but only for signals with a handler."""
