"""`make run`, with the interpreter of these tests in place of the virtual environment that it would make.

Real, for make and the signals of a terminal. How that environment comes about is tried on a fresh machine:
tests/package/test_fresh_machine.py.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.brokers.ports import free_port
from bench.brokers.processes import WITHIN_S, eventually, is_alive, process_tree
from kafkad.client.broker_client import BrokerClient

CHECKOUT = Path(__file__).parents[2]


def _make_run(folder: Path, port: int) -> list[str]:
    installed = folder / "venv" / "installed"
    if not installed.exists():
        (folder / "venv" / "bin").mkdir(parents=True)
        interpreter = folder / "venv" / "bin" / "python"
        interpreter.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        interpreter.chmod(0o755)
        installed.touch()
    variables = [f"VENV={folder}/venv", f"PORT={port}", f"DATA={folder}/data"]
    return ["make", "--no-print-directory", "-C", str(CHECKOUT), "run", *variables]


@contextmanager
def _running(folder: Path, port: int) -> Iterator["subprocess.Popen[str]"]:
    """`make run` as the leader of a terminal's foreground group would see it, after its banner."""
    with subprocess.Popen(
        _make_run(folder, port),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        try:
            assert any("is ready after" in line for line in process.stdout)
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def test_second_run_keeps_the_data_of_the_first_and_ctrl_c_stops_every_process_of_it(tmp_path: Path) -> None:
    port = free_port()
    for expected in ([], ["orders"]):
        with _running(tmp_path, port) as process:
            with BrokerClient(f"127.0.0.1:{port}") as client:
                assert [topic.name for topic in client.topics()] == expected
                if not expected:
                    client.create_topic("orders", partitions=1, replication_factor=1, configs={})
                    process.terminate()
                    process.wait(WITHIN_S)
                    continue
            tree = process_tree(process.pid)
            assert len(tree) > 1
            # A terminal sends it to the whole foreground group.
            os.killpg(process.pid, signal.SIGINT)
            process.wait(WITHIN_S)
            assert process.stdout is not None
            assert "Traceback" not in process.stdout.read()
        eventually(lambda: not any(map(is_alive, tree)), what="every process ends")  # noqa: B023
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()
