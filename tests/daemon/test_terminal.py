"""A broker in the foreground of a terminal, when the window is closed: it does not stay behind, unseen.

Real, for the terminal and its signals.
"""

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bench.brokers.ports import free_port
from bench.brokers.processes import WITHIN_S, eventually, is_alive, process_tree
from bench.brokers.readiness import responds

CHECKOUT = Path(__file__).parents[2]


@pytest.mark.parametrize("closes_window", [True, False])
def test_closed_window_stops_the_broker_and_a_hangup_alone_does_not(tmp_path: Path, closes_window: bool) -> None:
    port = free_port()
    overrides = (f"listeners=PLAINTEXT://127.0.0.1:{port}", f"log.dirs={tmp_path}", "num.io.threads=1")
    command = [sys.executable, "-m", "kafkad", "start", *(part for each in overrides for part in ("--override", each))]
    window, terminal = pty.openpty()
    broker = subprocess.Popen(
        command,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        cwd=CHECKOUT,
        start_new_session=True,
        # As a shell does for what it starts: the terminal's signals are for this process.
        preexec_fn=lambda: os.close(os.open(os.ttyname(0), os.O_RDWR)),
    )
    os.close(terminal)
    try:
        eventually(lambda: responds(port), what="the broker serves")
        tree = process_tree(broker.pid)
        if closes_window:
            os.close(window)
            # The kernel tells the leader of the session, which a shell would be; here it is the broker itself.
            assert broker.wait(WITHIN_S) == 0
            eventually(lambda: not any(map(is_alive, tree)), what="every process ends")
        else:
            broker.send_signal(signal.SIGHUP)
            said = b""
            while b"SIGHUP: there is no properties file to read again" not in said:
                said += os.read(window, 4096)
            broker.send_signal(signal.SIGTERM)
            assert broker.wait(WITHIN_S) == 0
            os.close(window)
    finally:
        broker.kill()
        broker.wait()
    assert (tmp_path / ".kafka_cleanshutdown").exists()
