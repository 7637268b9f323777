"""A broker that waits for ZooKeeper says so soon, not when the first attempt is given up."""

import logging
import threading
from contextlib import suppress

import pytest

from bench.brokers.processes import eventually
from kafkad.processes.controller.store.sessions import Stopped
from kafkad.processes.controller.store.zookeeper_sessions import ZookeeperSessions
from tests.config.configurations import configured


def test_who_waits_for_zookeeper_says_so_before_an_attempt_ends(caplog: pytest.LogCaptureFixture) -> None:
    config = configured(("zookeeper.connect", "127.0.0.1:1"), ("zookeeper.connection.timeout.ms", "8000"))
    assert config.cluster is not None
    sessions = ZookeeperSessions(config.cluster, None, resumes=False)

    def begin() -> None:
        with suppress(Stopped):
            sessions.begin(lambda store: store.close())

    thread = threading.Thread(target=begin)
    with caplog.at_level(logging.INFO, "kafkad"):
        thread.start()
        eventually(lambda: bool(caplog.records), what="it says something")
        first = caplog.records[0].getMessage()
        sessions.stop()
        thread.join()
    assert first == "no response from ZooKeeper at 127.0.0.1:1 yet: the broker waits"
