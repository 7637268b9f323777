"""A child of a child: the middle one is killed, and the last one has to notice."""

import os
import select
import signal
import subprocess
import sys

from bench.brokers.processes import WITHIN_S

_MIDDLE = """
import os, subprocess, sys
child = (
    "import os, signal, sys; from kafkad.adapters.operating_system.parent_watch import stop_with_parent;"
    "signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b'told'), os._exit(0)));"
    "stop_with_parent(int(sys.argv[1])); os.write(1, b'watching '); signal.pause()"
)
subprocess.Popen([sys.executable, "-c", child, sys.argv[1] if len(sys.argv) > 1 else str(os.getpid())])
if len(sys.argv) == 1:
    sys.stdin.read()
"""


def test_child_is_told_when_its_parent_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", _MIDDLE], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as middle:
        assert middle.stdout is not None
        assert os.read(middle.stdout.fileno(), 100) == b"watching "
        middle.send_signal(signal.SIGKILL)
        select.select([middle.stdout], [], [], 10)
        assert os.read(middle.stdout.fileno(), 100) == b"told"


def test_child_whose_parent_is_gone_already_is_told_at_once() -> None:
    gone = 2**22 - 1
    done = subprocess.run([sys.executable, "-c", _MIDDLE, str(gone)], capture_output=True, timeout=WITHIN_S)
    assert done.stdout == b"told"
