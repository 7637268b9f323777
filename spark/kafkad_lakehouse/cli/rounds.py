"""`kafkad export run --every`: repeat runs with a pause between them, until SIGTERM or SIGINT.

SIGTERM aborts a run; the next start repeats it. A run is retried if a broker or a schema registry is unavailable, or
after a commit of another export. Other errors end the command, as without `--every`.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

import click

from kafkad_lakehouse.export.problems import BrokerUnavailable, CommitConflict, ServiceUnavailable
from kafkad_lakehouse.export.reading.retrying import Retries

_FIRST_PAUSE_S = 1.0

_Result = TypeVar("_Result")


class Stopped(BaseException):
    """SIGTERM: the run is aborted, as by Ctrl-C."""


def repeat(one_round: Callable[[], None], every_s: float) -> None:
    """Repeat runs until a signal. A run begins `every_s` after the start of the previous one, or after its end."""
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
    """The pause doubles with each failure, up to `every_s`."""
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
    # Ignore further signals during the clean-up.
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, signal.SIG_IGN)
    raise Stopped


def with_retries(request: Callable[[], _Result], timeout_s: float) -> _Result:
    """The result of `request`, with retries while no broker responds."""
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
