"""Does a process keep what it has freed, and give it back when it is told to?"""

import subprocess
import sys

from bench.brokers.processes import WITHIN_S

ROUNDS = 400
PIECE = 1 << 20
PAGE = 4096
SCRIPT = f"""
import resource, sys
from kafkad.adapters.operating_system.process_limits import release_free_memory, keep_freed_memory

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1])

if sys.argv[1] == "keeps":
    keep_freed_memory()
before, at_first = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, resident()
for _ in range({ROUNDS}):
    pieces = [bytearray({PIECE}) for _ in range(3)]
    del pieces
faults, kept = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before, resident() - at_first
release_free_memory()
print(faults, kept, resident() - at_first)
"""


def _run(how: str) -> tuple[int, int, int]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, how], capture_output=True, text=True, check=True, timeout=WITHIN_S
    )
    faults, kept, left = map(int, done.stdout.split())
    return faults, kept, left


def test_freed_memory_is_kept_for_the_next_step_and_given_back_at_the_end() -> None:
    faults, kept, left = _run("keeps")
    pages = 3 * PIECE // PAGE
    assert faults < 2 * pages, "each step pays for its pages anew"
    assert kept > pages // 2
    assert left < pages // 2


def test_without_it_each_step_pays_for_its_pages() -> None:
    """Else there would be nothing to gain."""
    assert _run("does not")[0] > ROUNDS
