"""A run shows on a terminal how far it is; where there is none, such as under cron, it says nothing until its end."""

import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.brokers.processes import WITHIN_S
from kafkad.core.log.records.record import NewRecord, build_batch
from kafkad.core.log.recovery.checkpoints import HIGH_WATERMARKS
from tests.lakehouse.export.reading.test_log_directories import checkpoint, partition

PARTITIONS, COUNT = 4, 20
VALUE = bytes(2_000)


@pytest.fixture
def command(tmp_path: Path) -> Iterator[list[str]]:
    """It takes three seconds: as slow as it is told."""
    log = tmp_path / "log"
    for number in range(PARTITIONS):
        batches = [build_batch([NewRecord(1, None, VALUE)], base_offset=at) for at in range(COUNT)]
        partition(log, f"t-{number}", *batches)
    checkpoint(log, HIGH_WATERMARKS, **{f"p{number}": COUNT for number in range(PARTITIONS)})
    rate = PARTITIONS * COUNT * len(VALUE) // 3
    yield [
        *(sys.executable, "-m", "kafkad", "export", "run", "--topic", "t", "--out", str(tmp_path / "table")),
        *("--bootstrap-server", "none", "--source", "files", "--log-dirs", str(log)),
        *("--max-bytes-per-sec", str(rate)),
    ]


def on_terminal(command: list[str]) -> tuple[str, str]:
    """What it prints, and what it shows on the terminal."""
    ours, its = pty.openpty()
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=its, text=True)
    os.close(its)
    shown = b""
    try:
        while part := os.read(ours, 4_096):
            shown += part
    except OSError:
        # Nobody has the other end any more.
        pass
    finally:
        os.close(ours)
    printed, _ = running.communicate(timeout=WITHIN_S)
    assert running.returncode == 0, shown
    return printed, shown.decode()


def test_a_terminal_shows_records_a_second_and_the_time_left(command: list[str]) -> None:
    printed, shown = on_terminal(command)
    assert printed.startswith(f"{PARTITIONS * COUNT} records in {PARTITIONS} files")
    steps = re.findall(r"Exporting t .*?(\d+)/80(?: +(\d\d:\d\d:\d\d))?(?: +([\d,]+) records/s)?", shown)
    assert [int(done) for done, _, _ in steps if done != "0"] == [COUNT * number for number in range(1, PARTITIONS + 1)]
    assert all(int(rate.replace(",", "")) > 0 for done, _, rate in steps if done != "0")
    # Known once a second has passed, and of no use at the end.
    left = [time for _, time, _ in steps if time]
    assert left and all(time < "00:01:00" for time in left)


def test_where_there_is_no_terminal_nothing_is_shown(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=True)
    assert (done.stdout.count("\n"), done.stderr) == (1, "")


def test_a_run_that_has_nothing_to_do_shows_nothing(command: list[str]) -> None:
    subprocess.run(command[:-2], capture_output=True, timeout=WITHIN_S, check=True)
    assert on_terminal(command) == ("nothing new in t\n", "")
