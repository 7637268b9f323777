"""What the kernel says of a thread, read from real processes."""

import os
import subprocess
import sys

from bench.brokers.processes import eventually
from kafkad.adapters.operating_system.process_activity import activity


def test_one_that_works_uses_the_cpu() -> None:
    before = activity(os.getpid())
    assert before is not None and before.is_active
    after = before
    while after.cpu_ticks < before.cpu_ticks + 2:
        found = activity(os.getpid())
        assert found is not None
        after = found


def test_one_whose_name_has_parentheses_is_read_as_well() -> None:
    program = "open('/proc/self/comm', 'w').write('a) D ('); print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        eventually(lambda: not _wants_on(process.pid), what="it waits for a line")
        process.communicate(b"\n")


def test_one_that_waits_for_a_cpu_wants_on() -> None:
    """On a machine that is busy with others it hardly uses the CPU, and has not hung."""
    program = "print(flush=True)\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        seen = [_wants_on(process.pid) for _ in range(100)]
        process.kill()
    assert all(seen)


def _wants_on(pid: int) -> bool:
    seen = activity(pid)
    assert seen is not None
    return seen.is_active


def test_one_that_is_gone_is_nobody() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    assert activity(process.pid) is None
