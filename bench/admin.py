"""Create and delete topics for the benchmark by raw requests, and wait for the completion."""

import os
import time
from collections.abc import Mapping
from pathlib import Path

from bench.connection import Connection
from bench.replies import check_create_topics, leaders, offsets_without_error
from bench.requests import create_topics, delete_topics, latest_offsets, metadata

_CONFIGS = {"retention.ms": "-1"}
_TIMEOUT_S = 240.0


class Backoff:
    """Growing pauses between checks, which must not slow the broker down."""

    def __init__(self) -> None:
        self._started = time.perf_counter()

    def pause(self, what: str) -> None:
        waited = time.perf_counter() - self._started
        if waited > _TIMEOUT_S:
            raise TimeoutError(f"still waiting for: {what}")
        time.sleep(max(0.01, waited / 10))


def make_topics(port: int, topics: Mapping[str, int]) -> float:
    """Create the topics; returns the seconds until ListOffsets succeeds for each partition."""
    started = time.perf_counter()
    with Connection(port) as connection:
        for name, partitions in topics.items():  # Apache Kafka rejects 10,000 partitions in one request
            check_create_topics(connection.request(create_topics({name: partitions}, _CONFIGS)))
        _wait_until_served(connection, topics)
    return time.perf_counter() - started


def wait_until_served(port: int, topics: Mapping[str, int]) -> None:
    """Wait until every partition of the topics has a leader that responds."""
    with Connection(port) as connection:
        _wait_until_served(connection, topics)


def _wait_until_served(connection: Connection, topics: Mapping[str, int]) -> None:
    names, backoff = list(topics), Backoff()
    while leaders(connection.request(metadata(names))) != dict(topics):
        backoff.pause("leaders for all partitions")
    while offsets_without_error(connection.request(latest_offsets(topics))) != sum(topics.values()):
        backoff.pause("offsets of all partitions")


def drop_topics(port: int, log_dir: Path, topics: Mapping[str, int]) -> None:
    """Delete the topics and wait until their files are deleted."""
    with Connection(port) as connection:
        connection.request(delete_topics(list(topics)))
    backoff = Backoff()
    prefixes = tuple(f"{topic}-" for topic in topics)  # also of folders renamed before their deletion
    while any(name.startswith(prefixes) for name in _partition_folders(log_dir)):
        backoff.pause(f"the deletion of the folders of {list(topics)}")


def _partition_folders(log_dir: Path) -> list[str]:
    return [entry.name for entry in os.scandir(log_dir) if entry.is_dir()]
