"""Makes the kernel signal this process when its parent ends (prctl(2), PR_SET_PDEATHSIG), also after SIGKILL."""

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1


def stop_with_parent(parent_pid: int) -> None:
    """Get SIGTERM when the parent ends; at once if `parent_pid` has already ended."""
    _signal_at_death_of(parent_pid, signal.SIGTERM)


def die_with_parent(parent_pid: int) -> None:
    """Get SIGKILL when the parent ends; at once if `parent_pid` has already ended."""
    _signal_at_death_of(parent_pid, signal.SIGKILL)


def _signal_at_death_of(parent_pid: int, signal_number: signal.Signals) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0) != 0:
        failure = ctypes.get_errno()
        raise OSError(failure, f"prctl(PR_SET_PDEATHSIG): {os.strerror(failure)}")
    # The parent may have died before prctl was called.
    if os.getppid() != parent_pid:
        os.kill(os.getpid(), signal_number)
