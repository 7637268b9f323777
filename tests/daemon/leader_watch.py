"""For how long have partitions no leader? ZooKeeper says who leads; it has to be registered, and take connections."""

import json
import socket
import threading
import time
from collections.abc import Mapping

from kazoo.client import KazooClient

PAUSE_S = 0.01
NO_LEADER = -1


class LeaderWatch:
    """Looks again and again from another thread, until `end`. `addresses` are those of the brokers by id."""

    def __init__(
        self, zookeeper: KazooClient, topic: str, partitions: int, addresses: Mapping[int, tuple[str, int]]
    ) -> None:
        self._zookeeper = zookeeper
        self._topic = topic
        self._addresses = addresses
        self._seen_s = [time.monotonic()] * partitions
        self._longest_s = [0.0] * partitions
        self._looks = 0
        self._error: BaseException | None = None
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._is_over.wait(PAUSE_S):
                self._look()
        except BaseException as error:
            self._error = error
            raise

    def _look(self) -> None:
        registered = {int(each) for each in self._zookeeper.get_children("/brokers/ids")}
        answering: dict[int, bool] = {NO_LEADER: False}
        for partition, seen_s in enumerate(self._seen_s):
            state, _ = self._zookeeper.get(f"/brokers/topics/{self._topic}/partitions/{partition}/state")
            leader = json.loads(state)["leader"]
            if leader not in answering:
                answering[leader] = leader in registered and self._answers(leader)
            now_s = time.monotonic()
            if answering[leader]:
                self._seen_s[partition] = now_s
            else:
                self._longest_s[partition] = max(self._longest_s[partition], now_s - seen_s)
        self._looks += 1

    def _answers(self, broker: int) -> bool:
        try:
            socket.create_connection(self._addresses[broker], timeout=5).close()
        except OSError:
            return False
        return True

    def end(self) -> list[float]:
        """The longest time of each partition, in seconds."""
        self._is_over.set()
        self._thread.join()
        if self._error is not None:
            raise self._error
        assert self._looks, "it has not looked once"
        return self._longest_s
