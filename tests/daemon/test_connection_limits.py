"""Limits on connections hold for the broker, however many network processes take them."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from bench.brokers.processes import eventually
from tests.daemon.served import Served
from tests.tools.raw_requests import RawClient, api_versions

LIMIT, TRIED, NETWORKS = 6, 20, 3
CONNECTED = "kafka_server_socketservermetrics_connection_count"


def _is_answered(client: RawClient) -> bool:
    try:
        return bool(client.ask(api_versions()))
    except OSError:
        return False


@pytest.mark.parametrize("option", ["max.connections.per.ip", "max.connections"])
def test_limit_is_kept_over_all_network_processes(tmp_path: Path, option: str) -> None:
    settings = {"num.network.threads": str(NETWORKS), option: str(LIMIT)}
    with Served(tmp_path, settings) as served, ExitStack() as stack:
        eventually(lambda: served.metric(CONNECTED) == 0, what="nobody is left of the start")
        # One at a time: of two that come at the same moment to the last place, neither may get it.
        clients = []
        for _ in range(TRIED):
            client = stack.enter_context(served.connect())
            clients.append((client, _is_answered(client)))
        assert [answered for _, answered in clients] == [True] * LIMIT + [False] * (TRIED - LIMIT)
        # Each process says it once a minute for an address.
        assert 1 <= len(served.lines("is turned away")) <= NETWORKS
        clients[0][0].sock.close()
        eventually(served.is_open, what="there is a place again")
