"""What the kernel says of a thread, read from real processes."""

import os
import subprocess
import sys

from kafkad.adapters.operating_system.process_activity import activity


def test_one_that_works_uses_the_cpu() -> None:
    before = activity(os.getpid())
    assert before is not None and not before.waits_for_disk
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
        seen = activity(process.pid)
        process.communicate(b"\n")
    assert seen is not None and not seen.waits_for_disk


def test_one_that_is_gone_is_nobody() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    assert activity(process.pid) is None
