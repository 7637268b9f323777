import subprocess
import sys
from textwrap import dedent

from bench.brokers.processes import eventually, is_alive, read_process

FIRST_THREAD_ENDS = dedent("""
    import ctypes, sys, threading
    threading.Thread(target=sys.stdin.read).start()
    ctypes.CDLL(None).pthread_exit(None)
""")


def test_a_process_whose_first_thread_has_ended_is_alive_until_the_last_one_ends() -> None:
    """As the kernel shows a killed process: a zombie, whose other threads still have its files and locks."""
    running = subprocess.Popen([sys.executable, "-c", FIRST_THREAD_ENDS], stdin=subprocess.PIPE)
    begun = read_process(running.pid)
    assert begun is not None

    def is_zombie() -> bool:
        now = read_process(running.pid)
        return now is not None and now.state == "Z"

    eventually(is_zombie, what="the first thread has ended")
    assert is_alive(begun)
    running.kill()
    eventually(lambda: not is_alive(begun), what="the last thread has ended, and nobody has waited for the process")
    running.communicate()
