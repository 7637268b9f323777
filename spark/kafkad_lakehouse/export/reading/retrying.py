"""Retries of requests to an unavailable broker, until `--timeout` after its last response."""

import time

from kafkad_lakehouse.export.problems import BrokerUnavailable, ExportFailed

_PAUSE_S = 0.2


class Retries:
    """The retries of one request."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self.reset()

    def reset(self) -> None:
        """Restart the timeout after a response."""
        self._deadline_s = time.monotonic() + self._timeout_s

    def wait(self, failed: ExportFailed) -> None:
        """Wait before the next retry. Raises `failed` after the timeout, or if a retry is useless."""
        if not isinstance(failed, BrokerUnavailable) or time.monotonic() + _PAUSE_S > self._deadline_s:
            raise failed
        time.sleep(_PAUSE_S)
