"""`kafkad export run --every`: a round, a pause, the next round, until SIGTERM or SIGINT.

SIGTERM in the middle of a round gives that round up, as what is killed is repeated anyway. A broker that is away and a
race that another export has won are tried again; everything else ends the command, as it does without `--every`.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

import click

from kafkad.export.problems import BrokerUnavailable, CommitConflict, ServiceUnavailable
from kafkad.export.reading.retrying import Retries

_FIRST_PAUSE_S = 1.0

_Result = TypeVar("_Result")


class Stopped(BaseException):
    """SIGTERM: what is under way ends, as by Ctrl-C."""


def repeat(one_round: Callable[[], None], every_s: float) -> None:
    """Returns when it is told to stop. Rounds begin `every_s` after each other, or at once if one took longer."""
    failures = 0
    with _stopping():
        while True:
            began_s = time.monotonic()
            try:
                one_round()
                failures = 0
                pause_s = began_s + every_s - time.monotonic()
            except (ServiceUnavailable, CommitConflict) as failed:
                pause_s = pause_after(failures, every_s)
                failures += 1
                click.echo(f"kafkad: {failed}; retrying in {pause_s:g} s", err=True)
            if pause_s > 0:
                threading.Event().wait(pause_s)


def pause_after(failures: int, every_s: float) -> float:
    """Twice as long each time, and never longer than between rounds."""
    return min(every_s, _FIRST_PAUSE_S * float(1 << min(failures, 30)))


@contextmanager
def _stopping() -> Iterator[None]:
    before = {number: signal.signal(number, _stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    except Stopped:
        return
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop(number: int, frame: FrameType | None) -> None:
    # Not twice: the clean-up has begun.
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, signal.SIG_IGN)
    raise Stopped


def with_retries(request: Callable[[], _Result], timeout_s: float) -> _Result:
    """As soon as the broker answers, which may be restarting."""
    retries = Retries(timeout_s)
    is_reported = False
    while True:
        try:
            return request()
        except BrokerUnavailable as failed:
            retries.wait(failed)
            if not is_reported:
                click.echo(f"kafkad: {failed}; retrying for {timeout_s:g} s", err=True)
            is_reported = True
