"""A process of multiprocess whose failed fork can be retried without a leak.

multiprocess opens two pipes before it forks, and leaks them when the fork fails. A process limit may be reached for
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
    errno.EAGAIN: "the limit of processes is reached (ulimit -u, TasksMax=, pids.max)",
    errno.ENOMEM: "not enough memory for another process",
    errno.EMFILE: "the limit of open files is reached (ulimit -n, LimitNOFILE=)",
    errno.ENFILE: "the machine's limit of open files is reached (fs.file-max)",
}


class CannotFork(Exception):
    """Why the fork failed; one line."""

    def __init__(self, error: OSError) -> None:
        hint = _HINTS.get(error.errno or 0)
        super().__init__(f"{hint}: {error.strerror}" if hint else str(error))


class _Popen(Popen):  # type: ignore[misc]  # multiprocess has no types
    def _launch(self, process_obj: BaseProcess) -> None:
        with ExitStack() as on_failure:
            ours, childs_end = _pipe(on_failure)
            childs, our_end = _pipe(on_failure)
            self.pid = os.fork()
            on_failure.pop_all()
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
    """The process of multiprocess, but a failed fork closes the pipes."""

    @staticmethod
    def _Popen(process_obj: BaseProcess) -> Popen:
        return _Popen(process_obj)
