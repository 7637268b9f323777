"""Which descriptors have something to be read, asked of the kernel once for everybody in a round.

There are thousands of rounds, and in each most of the actors have nothing: to ask for every one of them took most of
the time of a run.
"""

import select


class Readiness:
    """What is not watched is not known. Descriptors that are closed are watched no longer."""

    def __init__(self) -> None:
        self._watched = select.epoll()
        self._ready: set[int] | None = None

    def watch(self, fd: int) -> None:
        self._watched.register(fd, select.EPOLLIN)

    def look(self) -> None:
        """What is said from now on, until `forget`, is what was so at this moment."""
        self._ready = {fd for fd, _ in self._watched.poll(0)}

    def forget(self) -> None:
        """Somebody acts: anything may have come."""
        self._ready = None

    def is_quiet(self, fd: int) -> bool:
        """Whether nothing has come by this one; False: it is to be asked itself."""
        return self._ready is not None and fd not in self._ready
