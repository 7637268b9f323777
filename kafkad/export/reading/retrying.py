"""How long does a run ask a broker that is away? Until `--timeout` after its last answer."""

import time

from kafkad.export.problems import BrokerAway, ExportFailed

_PAUSE_S = 0.2


class Retries:
    """Of one thing that is asked of a broker."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self.answered()

    def answered(self) -> None:
        """The time begins anew."""
        self._deadline_s = time.monotonic() + self._timeout_s

    def wait(self, failed: ExportFailed) -> None:
        """Returns when the broker may be asked again. Raises `failed` if time does not mend it, or is over."""
        if not isinstance(failed, BrokerAway) or time.monotonic() + _PAUSE_S > self._deadline_s:
            raise failed
        time.sleep(_PAUSE_S)
