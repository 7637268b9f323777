"""One client for all ranges that a task reads through the brokers: a topic may have ten thousand partitions, and each
new client asks for the metadata of all of them.
"""

import time
from typing import Self

from kafkad.client.broker_client import BrokerClient

_IDLE_S = 60.0
"""A broker closes connections that are idle for long (connections.max.idle.ms)."""


class SharedClient:
    """Connected when the first range needs it: what is read from files needs none."""

    def __init__(self) -> None:
        self._client: BrokerClient | None = None
        self._used_s = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def connected(self, bootstrap: str, timeout_s: float) -> BrokerClient:
        """Always to the same brokers. Raises `BrokerCallFailed`."""
        if time.monotonic() - self._used_s > _IDLE_S:
            self.close()
        if self._client is None:
            self._client = BrokerClient(bootstrap, timeout_s)
        self.used()
        return self._client

    def used(self) -> None:
        self._used_s = time.monotonic()

    def close(self) -> None:
        """Also after a failure: whoever goes on connects anew."""
        if self._client is not None:
            self._client.close()
            self._client = None
