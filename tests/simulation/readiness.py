"""Whose descriptors have something to be read, asked of the kernel once for everybody in a round."""

import select


class Readiness:
    """What is not watched is not known. Descriptors that are closed are watched no longer."""

    def __init__(self) -> None:
        self._watched = select.epoll()
        self._actors: dict[int, object] = {}
        self._ready: set[int] | None = None

    def watch(self, fd: int, actor: object) -> None:
        self._watched.register(fd, select.EPOLLIN)
        self._actors[fd] = actor

    def unwatch(self, fd: int) -> None:
        """Before it is closed: its actor is not kept."""
        del self._actors[fd]

    def look(self) -> list[object]:
        """Who has something. What is said from now on, until `forget`, is what was so at this moment."""
        self._ready = {fd for fd, _ in self._watched.poll(0)}
        return [self._actors[fd] for fd in self._ready]

    def forget(self) -> None:
        """Somebody acts: anything may have come."""
        self._ready = None

    def is_quiet(self, fd: int) -> bool:
        """Whether nothing has come by this one; False: it is to be asked itself."""
        return self._ready is not None and fd not in self._ready
