"""Threads that wait for a disk instead of a loop. If no thread can be started, the caller's thread does the work.

The pool is created on first use, so always after the fork. `concurrent.futures` alone would raise if no thread can be
started, and keep the work queued.
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
        self._has_logged = False

    def submit(
        self, work: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Future[Result]:
        """A future of `work`; it is already complete if the caller's thread did the work."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(max_workers=self._most, thread_name_prefix=self._name)
        future: Future[Result] = Future()
        # The pool queues the work although `submit` raises, and one of its threads may run it.
        attempts = count()

        def perform() -> None:
            if next(attempts):
                return
            try:
                future.set_result(work(*args, **kwargs))
            except Exception as error:  # noqa: BLE001  for the caller, as with any future
                future.set_exception(error)

        try:
            self._pool.submit(perform)
            self._has_logged = False
        except RuntimeError as no_thread:
            if not self._has_logged:
                log.error("can't start a thread for %s, the work blocks the event loop: %s", self._name, no_thread)
                self._has_logged = True
            perform()
        return future

    def close(self, *, cancel: bool = False) -> None:
        """With `cancel`, queued work is dropped."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=cancel)
