"""A log directory that can't be used: the start is refused with one line that says why, and exit code 2.

It needs real processes, as it is about the lock of one that runs, and what a command prints. The other reasons are in
tests/processes/supervisor/test_log_directories.py.
"""

import subprocess
import sys
from pathlib import Path

from bench.brokers.daemon import Kafkad
from bench.brokers.ports import free_port
from bench.brokers.processes import WITHIN_S


def _refused(log_dirs: str) -> str:
    """The one line with which a broker on `log_dirs` ends, and exit code 2."""
    listeners = f"listeners=PLAINTEXT://127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "kafkad", "start", "--override", listeners, "--override", f"log.dirs={log_dirs}"]
    command += ["--override", "kafkad.metrics.listener="]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S)
    assert outcome.returncode == 2, outcome.stderr
    (line,) = outcome.stderr.splitlines()
    return line


def test_directory_of_a_running_broker_is_named_with_its_holder(tmp_path: Path) -> None:
    with Kafkad(tmp_path) as holder:
        line = _refused(str(holder.log_dir))
        assert str(holder.log_dir) in line and str(holder.pid) in line


def test_directories_that_were_set_aside_are_named_once_and_stay(tmp_path: Path) -> None:
    names = [f"orders-{at}.{'a' * 32}-{state}" for at, state in enumerate(("stray", "future"))]
    broker = Kafkad(tmp_path)
    for name in names:
        (broker.log_dir / name).mkdir(parents=True)
    with broker:
        assert broker.stop() == 0
    (line,) = [line for line in broker.output.read_text().splitlines() if "set aside" in line]
    assert all(f"{broker.log_dir}/{name}" in line for name in names)
    assert all((broker.log_dir / name).is_dir() for name in names)
