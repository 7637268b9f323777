"""SIGKILL at random moments while records come in: to any one process of the broker, and to all at once.

An idempotent producer finds every record in the log exactly once, in order; with acks=1 and no retries everything
acknowledged is there, in order, never twice. Real, for the signals: memory
and files are left as they are. There are `kills`, with seeds from `kill_seed` on.
"""

import os
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.brokers.daemon import Kafkad
from bench.brokers.processes import eventually, is_alive, kill_all
from tests.amounts import amount
from tests.daemon.kill_run import produce_under_fire, read_back
from tests.daemon.ledger import PARTITIONS, check_ledger
from tests.tools.log_dump import log_rate_limit

SEEDS = range(amount("kill_seed"), amount("kill_seed") + amount("kills"))
EVERYONE = "everyone"
SUPERVISOR = "supervisor"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafkad]:
    """One broker through all kills, with segments small enough to roll in the middle of them."""
    folder = tmp_path_factory.mktemp("kills")
    # Paths of sockets are limited to 107 bytes, and those of pytest are long.
    with tempfile.TemporaryDirectory(prefix="kills-") as runtime:
        before = _shared_memory()
        overrides = {"kafkad.runtime.dir": runtime, "log.segment.bytes": str(1 << 20)}
        with Kafkad(folder, overrides) as broker:
            yield broker
        crashed = broker.output.read_text().partition("exiting: unexpected error")
        assert not crashed[1], f"a process ended by itself: {crashed[0][-200:]}{crashed[1]}{crashed[2][:3_000]}"
        assert os.listdir(runtime) == [], "sockets of the broker were left behind"
        assert _shared_memory() <= before, "shared memory was left behind"


def _shared_memory() -> set[str]:
    """Without the folders of simulations and the semaphores of exports, which may run beside this."""
    return {name for name in os.listdir("/dev/shm") if not name.startswith(("kafkad-simulation-", "sem.mp-"))}


class Killing:
    """The one kill of a test: who it was, and what has to happen for the broker to serve again."""

    def __init__(self, broker: Kafkad, victim: str) -> None:
        self._broker = broker
        self._victim = victim

    def __call__(self) -> None:
        tree = self._broker.tree()
        if self._victim == EVERYONE:
            self._broker.kill()
            self._broker.start(wait=False)
        elif self._victim == SUPERVISOR:
            kill_all(tree[:1])
            eventually(lambda: not any(map(is_alive, tree)), what="the children of a dead supervisor end")
            self._broker.kill()
            self._broker.start(wait=False)
        else:
            kill_all([process for process in tree if process.name == self._victim])


def victims(broker: Kafkad) -> list[str]:
    """All whom a kill can hit, those that handle records first."""
    names = sorted(process.name for process in broker.tree()[1:])
    on_the_way = [name for name in names if name.startswith(("worker", "network"))]
    return [*on_the_way, EVERYONE, SUPERVISOR, *(name for name in names if name not in on_the_way)]


def serving(broker: Kafkad, names: list[str]) -> bool:
    """Whether every process that was there is there again."""
    return sorted(process.name for process in broker.tree()[1:]) == names


def new_topic(broker: Kafkad, name: str) -> str:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(60)
    return name


@pytest.mark.parametrize("seed", SEEDS)
def test_no_acknowledged_record_is_lost_doubled_or_moved_by_a_kill(broker: Kafkad, seed: int) -> None:
    chosen = random.Random(seed)
    everyone = victims(broker)
    victim, idempotent = everyone[seed // 2 % len(everyone)], seed % 2 == 0
    print(f"seed {seed}: SIGKILL to {victim}, {'idempotent' if idempotent else 'acks=1, retries=0'}")
    names = sorted(process.name for process in broker.tree()[1:])
    topic = new_topic(broker, f"kill-{seed}")
    ledger = produce_under_fire(chosen, broker.port, topic, idempotent=idempotent, kill=Killing(broker, victim))
    assert sum(map(len, ledger.acknowledged.values())) > 0, f"nothing was acknowledged: {set(ledger.refused)}"
    check_ledger(ledger, read_back(broker.bootstrap, topic), idempotent=idempotent)
    eventually(lambda: serving(broker, names), what=f"{names} run again after the kill")


def test_kafkas_own_tool_reads_what_the_kills_left(broker: Kafkad) -> None:
    """Last in this module: after a clean stop every segment and index has to be whole."""
    broker.stop()
    files: list[Path] = sorted(broker.log_dir.glob("kill-*/*"))
    assert log_rate_limit([path for path in files if path.suffix in (".log", ".index", ".timeindex")]) == []
    broker.start()
