"""`kafkad start` where something is short: open files, memory, disk. One line that says what, and exit code 2.

Real processes, as the kernel's own limits are set.
"""

import os
import re
import resource
import subprocess
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from bench.brokers.daemon import Kafkad
from bench.brokers.ports import free_port
from bench.brokers.processes import WITHIN_S
from kafkad.client.broker_client import BrokerClient
from kafkad.core.supervision.machine_limits import FEWEST_CONNECTIONS
from tests.tools import raw_requests as raw
from tests.tools.stranger import STRANGER, as_stranger

STAMPED = r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] "
"""The local time, which lines of the log have outside of the journal."""
ON_ARM = """
import os, sys
known = os.uname()
os.uname = lambda: os.uname_result((*known[:4], "aarch64"))
from kafkad.cli import main
sys.argv[0] = "kafkad"
main()
"""


class Start:
    """A start that must not succeed: its one line."""

    def __init__(self, folder: Path) -> None:
        self.overrides = {
            "log.dirs": f"{folder}/data",
            "kafkad.runtime.dir": f"{folder}/run",
            "listeners": f"PLAINTEXT://127.0.0.1:{free_port()}",
            "kafkad.metrics.listener": "",
            "num.io.threads": "1",
            "num.network.threads": "1",
        }
        self.program = ["-m", "kafkad"]

    def refused(self, *limits: tuple[int, int]) -> str:
        pairs = [part for pair in self.overrides.items() for part in ("--override", "=".join(pair))]
        done = subprocess.run(
            as_stranger([sys.executable, *self.program, "start", *pairs]),
            preexec_fn=partial(_limit, limits),
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
        )
        assert done.returncode == 2, done.stderr
        assert len(done.stderr.splitlines()) == 1, done.stderr
        return done.stderr


def _limit(limits: tuple[tuple[int, int], ...]) -> None:
    for kind, hard in limits:
        resource.setrlimit(kind, (hard, hard))


@pytest.fixture
def start(folder: Path) -> Start:
    if STRANGER is not None:
        os.chown(folder, STRANGER, STRANGER)
    return Start(folder)


@pytest.mark.parametrize("most", [20, 100])
def test_few_open_files_are_named_with_the_number_that_is_needed(start: Start, most: int) -> None:
    said = start.refused((resource.RLIMIT_NOFILE, most))
    assert f"limit of open files is {most} for each process (ulimit -n, LimitNOFILE=)," in said
    assert "a broker of 6 processes requires at least 154" in said


def test_open_files_that_are_just_enough_serve_as_many_connections_as_was_said(tmp_path: Path) -> None:
    with Limited(tmp_path, {"num.io.threads": "1", "num.network.threads": "1"}) as broker:
        with BrokerClient(broker.bootstrap) as client:
            client.create_topic("orders", partitions=3, replication_factor=1, configs={})
        with ExitStack() as clients:
            for _ in range(FEWEST_CONNECTIONS - 1):
                assert clients.enter_context(raw.RawClient(broker.port)).ask(raw.api_versions())
        said = broker.output.read_text()
    (line,) = (line for line in said.splitlines() if re.match(STAMPED + "WARNING supervisor ", line))
    assert "limit of open files is 154" in line
    assert "1466 are recommended for 6 processes, 0 partitions and 1000 connections" in line


class Limited(Kafkad):
    """With as few open files as are not refused."""

    def command(self) -> list[str]:
        return ["prlimit", "--nofile=154:154", *super().command()]


def test_memory_that_can_not_be_shared_is_named(start: Start) -> None:
    said = start.refused((resource.RLIMIT_AS, 400 << 20))
    assert said.startswith("kafkad: can't allocate ") and " of shared memory (" in said
    assert "Cannot allocate memory" in said


def test_little_memory_for_each_process_is_said_with_what_is_better(tmp_path: Path) -> None:
    with LittleMemory(tmp_path) as broker:
        with BrokerClient(broker.bootstrap) as client:
            client.create_topic("orders", partitions=3, replication_factor=1, configs={})
        said = broker.output.read_text()
    (line,) = (line for line in said.splitlines() if re.match(STAMPED + "WARNING supervisor ", line))
    assert "memory limit of each process is 150 MB (ulimit -d, LimitDATA=): at least 280 MB are recommended" in line


class LittleMemory(Kafkad):
    def command(self) -> list[str]:
        return ["prlimit", f"--data={150 << 20}", *super().command()]


def test_another_architecture_is_refused_with_the_reason(start: Start) -> None:
    start.program = ["-c", ON_ARM]
    said = start.refused()
    assert "unsupported architecture aarch64: kafkad requires x86-64" in said


def test_log_directory_that_may_not_be_written_is_named(start: Start, folder: Path) -> None:
    (folder / "data").mkdir(mode=0o500)
    assert f"{folder}/data is not readable and writable for this user" in start.refused()
    start.overrides["log.dirs"] = f"{folder}/data/deeper"
    assert f"{folder}/data/deeper can't be created: Permission denied" in start.refused()


def test_folder_that_takes_no_sockets_is_named(start: Start, folder: Path) -> None:
    (folder / "run").mkdir(mode=0o500)
    start.overrides["kafkad.runtime.dir"] = f"{folder}/run"
    said = start.refused()
    assert f"can't create a directory for sockets in {folder}/run (Permission denied); set kafkad.runtime.dir" in said
