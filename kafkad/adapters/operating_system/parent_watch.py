"""A process that stops when the one that started it is gone, however that ended.

The kernel sends the signal (prctl(2), PR_SET_PDEATHSIG), so even SIGKILL of the parent is covered.
"""

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1


def stop_with_parent(parent_pid: int) -> None:
    """Ask for SIGTERM at the parent's death; sends it at once if `parent_pid` is not the parent any more."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0) != 0:
        failure = ctypes.get_errno()
        raise OSError(failure, f"prctl(PR_SET_PDEATHSIG): {os.strerror(failure)}")
    # The parent may have died before the kernel knew of the wish.
    if os.getppid() != parent_pid:
        os.kill(os.getpid(), signal.SIGTERM)
