"""`make cluster`: one command gives a ZooKeeper and three brokers, a killed one comes back, Ctrl-C stops them all.

Real, for make, ZooKeeper and the signals.
"""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bench.brokers.ports import free_port
from bench.brokers.processes import WITHIN_S, eventually, is_alive, process_tree
from kafkad.client.broker_client import BrokerClient

CHECKOUT = Path(__file__).parents[2]


def _three_free_ports() -> int:
    """The first of three ports in a row."""
    while True:
        first = free_port()
        with suppress(OSError):
            for port in (first, first + 1, first + 2):
                socket.create_server(("127.0.0.1", port)).close()
            return first


@contextmanager
def _running(folder: Path, port: int) -> Iterator["subprocess.Popen[str]"]:
    (folder / "venv" / "bin").mkdir(parents=True)
    interpreter = folder / "venv" / "bin" / "python"
    interpreter.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    interpreter.chmod(0o755)
    (folder / "venv" / "installed").touch()
    variables = [f"VENV={folder}/venv", f"PORT={port}", f"ZOOKEEPER_PORT={free_port()}", f"DATA={folder}/data"]
    with subprocess.Popen(
        ["make", "--no-print-directory", "-C", str(CHECKOUT), "cluster", *variables],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        children: set[int] = set()
        try:
            yield process
        finally:
            children = {each.pid for each in process_tree(process.pid)}
            for pid in (*children, process.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def test_one_command_gives_a_cluster_until_ctrl_c(tmp_path: Path) -> None:
    port = _three_free_ports()
    with _running(tmp_path, port) as process:
        assert process.stdout is not None
        told = []
        for line in process.stdout:
            told.append(line)
            if "watch" in line:
                break
        text = "".join(told)
        assert f"bootstrap   127.0.0.1:{port},127.0.0.1:{port + 1},127.0.0.1:{port + 2}\n" in text, text
        group = re.search(r"kill -9 -(\d+)", text)
        assert group is not None, text
        with BrokerClient(f"127.0.0.1:{port + 2}") as client:
            client.create_topic("orders", partitions=3, replication_factor=3, configs={})
        os.killpg(int(group[1]), signal.SIGKILL)
        assert process.stdout.readline() == "broker 1 has ended; restarting it in 15 s\n"
        assert process.stdout.readline().startswith("broker 1 is starting, with process group ")
        everything = process_tree(process.pid)
        eventually(lambda: _answers(port), what="broker 1 is back")
        os.killpg(process.pid, signal.SIGINT)
        # make ends by the signal as well, when its child has ended.
        assert process.wait(WITHIN_S) in (0, -signal.SIGINT)
        assert process.stdout.read().endswith("stopping 3 broker(s), then ZooKeeper\n")
        assert not any(is_alive(each) for each in everything)


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 1):
            return True
    except OSError:
        return False
