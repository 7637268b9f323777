"""Work in threads, and without them under the kernel's own limit, which does not bind root."""

import os
import resource
import subprocess
import sys
from threading import get_ident

import pytest

from bench.brokers.processes import WITHIN_S
from kafkad.adapters.operating_system.helper_threads import HelperThreads
from tests.tools.stranger import as_stranger

PROGRAM = """
import logging, os
from threading import get_ident
from kafkad.adapters.operating_system.helper_threads import HelperThreads

logging.basicConfig()
threads = HelperThreads(2, "sync")
done = []
futures = [threads.submit(lambda: done.append(get_ident()) or len(done)) for _ in range(3)]
assert [future.result(0) for future in futures] == [1, 2, 3]
assert set(done) == {get_ident()}
try:
    threads.submit(os.stat, "/no/such/file").result(0)
except FileNotFoundError:
    print("raised")
threads.close()
assert len(done) == 3
"""


def test_work_is_done_in_another_thread() -> None:
    threads = HelperThreads(2, "sync")
    assert threads.submit(get_ident).result(60) != get_ident()
    threads.close()


def test_what_the_work_raises_is_the_future_s() -> None:
    threads = HelperThreads(1, "sync")
    with pytest.raises(FileNotFoundError):
        threads.submit(os.stat, "/no/such/file").result(60)
    threads.close()


def test_without_room_for_a_thread_the_caller_does_the_work_once_and_says_so_once() -> None:
    done = subprocess.run(
        as_stranger([sys.executable, "-c", PROGRAM]),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NPROC, (1, 1)),
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
    )
    assert (done.stdout, done.returncode) == ("raised\n", 0), done.stderr
    assert done.stderr.count("can't start a thread for ") == 1
