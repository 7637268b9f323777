"""Threads that wait for a disk, so that a loop does not. If no thread can be started, the caller waits itself.

The pool is created when first needed, and so always after the fork. `concurrent.futures` alone would raise when no
thread starts, and keep the work as well.
"""

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from typing import ParamSpec, TypeVar

log = logging.getLogger(__name__)

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class HelperThreads:
    """At most `most` threads; `close` waits for running work."""

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._pool: ThreadPoolExecutor | None = None
        self._has_complained = False

    def submit(
        self, work: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Future[Result]:
        """A future of `work`; it is done already if the caller's thread had to do the work."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(max_workers=self._most, thread_name_prefix=self._name)
        future: Future[Result] = Future()
        # The pool has queued the work although it raised, and one of its threads may run it.
        attempts = count()

        def perform() -> None:
            if next(attempts):
                return
            try:
                future.set_result(work(*args, **kwargs))
            except Exception as error:  # noqa: BLE001  the caller's, as with any future
                future.set_exception(error)

        try:
            self._pool.submit(perform)
            self._has_complained = False
        except RuntimeError as no_thread:
            if not self._has_complained:
                log.error("no thread can be started for %s, all else waits for it: %s", self._name, no_thread)
                self._has_complained = True
            perform()
        return future

    def close(self, *, cancel: bool = False) -> None:
        """With `cancel`, work that no thread has begun is dropped."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=cancel)
