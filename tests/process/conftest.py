"""Brokers of trivial processes, gone after the test whatever it did."""

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.small_disks import MOUNT_OPTIONS
from tests.process.supervised import TrivialBroker


@pytest.fixture
def brokers() -> Iterator[list[TrivialBroker]]:
    started: list[TrivialBroker] = []
    yield started
    for broker in started:
        broker.end()


@pytest.fixture
def folder() -> Iterator[Path]:
    """Not tmp_path: sockets need short paths."""
    with tempfile.TemporaryDirectory(prefix="kt-") as name:
        yield Path(name)


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """One megabyte, as root may mount it."""
    with tempfile.TemporaryDirectory(prefix="kd-") as name:
        subprocess.run(["mount", "-t", "tmpfs", "-o", MOUNT_OPTIONS, "tmpfs", name], check=True)
        yield Path(name)
        subprocess.run(["umount", name], check=True)
