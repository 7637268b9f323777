"""A process of multiprocess whose fork may fail without leaving anything behind, so that it can be tried again.

multiprocess makes two pipes before it forks, and leaks them when the fork fails. A limit of processes may last for
hours.
"""

import errno
import os
from contextlib import ExitStack

from multiprocess import util
from multiprocess.context import ForkProcess
from multiprocess.popen_fork import Popen
from multiprocess.process import BaseProcess

_HINTS = {
    errno.EAGAIN: "no more processes may be started (ulimit -u, TasksMax=, pids.max)",
    errno.ENOMEM: "there is not enough memory for another process",
    errno.EMFILE: "no more files may be opened (ulimit -n, LimitNOFILE=)",
    errno.ENFILE: "the machine has no more open files to give (fs.file-max)",
}


class CannotFork(Exception):
    """Why the fork failed; one line."""

    def __init__(self, error: OSError) -> None:
        known = _HINTS.get(error.errno or 0)
        super().__init__(f"{known}: {error.strerror}" if known else str(error))


class _Popen(Popen):  # type: ignore[misc]  # multiprocess has no types
    def _launch(self, process_obj: BaseProcess) -> None:
        with ExitStack() as unless_forked:
            ours, childs_end = _pipe(unless_forked)
            childs, our_end = _pipe(unless_forked)
            self.pid = os.fork()
            unless_forked.pop_all()
        if self.pid == 0:
            code = 1
            try:
                os.close(ours)
                os.close(our_end)
                code = process_obj._bootstrap(parent_sentinel=childs)
            finally:
                os._exit(code)
        os.close(childs_end)
        os.close(childs)
        self.finalizer = util.Finalize(self, util.close_fds, (ours, our_end))
        self.sentinel = ours


def _pipe(stack: ExitStack) -> tuple[int, int]:
    ends = os.pipe()
    for end in ends:
        stack.callback(os.close, end)
    return ends


class Process(ForkProcess):  # type: ignore[misc]
    """As multiprocess's own, but it closes the pipes when the fork fails."""

    @staticmethod
    def _Popen(process_obj: BaseProcess) -> Popen:
        return _Popen(process_obj)
