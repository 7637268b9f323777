"""The first client: makes the topics that the others use, and is content when it has heard of all of them."""

from collections.abc import Mapping

from tests.simulation import requests
from tests.simulation.client import Client
from tests.simulation.scheduler import Scheduler, Violated
from tests.simulation.sockets import Port

ALREADY_EXISTS, TIMED_OUT, INTERRUPTED = 36, 7, -1


class TopicSetup(Client):
    """Creates `topics` (partitions and configuration by name)."""

    def __init__(
        self,
        scheduler: Scheduler,
        port: Port,
        topics: Mapping[str, tuple[int, Mapping[str, str]]],
        *,
        replication_factor: int = 1,
    ) -> None:
        super().__init__(scheduler, port, "setup")
        self._left = dict(topics)
        self._replication_factor = replication_factor

    @property
    def is_done(self) -> bool:
        return not self._left

    def step(self) -> None:
        if self.open or self.is_done:
            return
        if not self.is_connected:
            self.connect()
        name, (partitions, configs) = next(iter(self._left.items()))

        def answered(body: bytes | None) -> None:
            error = requests.read_created(body) if body is not None else TIMED_OUT
            if error in (0, ALREADY_EXISTS):
                del self._left[name]
            elif error not in (TIMED_OUT, INTERRUPTED):
                raise Violated(f"topic {name} can't be created: error {error}")
            self.wake_in(1)

        factor = self._replication_factor
        self.ask(f"create {name}", lambda at: requests.create_topic(name, partitions, configs, at, factor), answered)
