"""One client for all ranges that a task reads from brokers: each new client requests the metadata of all partitions of
the topic, which may be ten thousand.
"""

import time
from typing import Self

from kafkad.client.broker_client import BrokerClient

_IDLE_S = 60.0
"""A broker closes idle connections (connections.max.idle.ms)."""


class SharedClient:
    """Connects when the first range needs a broker: reading from files needs none."""

    def __init__(self) -> None:
        self._client: BrokerClient | None = None
        self._used_s = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def connected(self, bootstrap: str, timeout_s: float) -> BrokerClient:
        """The connected client; all calls use the same brokers. Raises `BrokerCallFailed`."""
        if time.monotonic() - self._used_s > _IDLE_S:
            self.close()
        if self._client is None:
            self._client = BrokerClient(bootstrap, timeout_s)
        self.used()
        return self._client

    def used(self) -> None:
        self._used_s = time.monotonic()

    def close(self) -> None:
        """Close the client, also after a failure; the next call of `connected` connects again."""
        if self._client is not None:
            self._client.close()
            self._client = None
