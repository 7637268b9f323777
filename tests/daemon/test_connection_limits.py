"""Limits on connections hold for the broker, however many network processes take them: so it needs some of them."""

from contextlib import ExitStack
from pathlib import Path

from bench.brokers.processes import eventually
from tests.daemon.served import Served
from tests.tools.raw_requests import RawClient, api_versions

OF_AN_ADDRESS, OF_ALL, TRIED, NETWORKS = 6, 9, 20, 3
CONNECTED = "kafka_server_socketservermetrics_connection_count"


def _is_answered(client: RawClient) -> bool:
    try:
        return bool(client.ask(api_versions()))
    except OSError:
        return False


def _answered(served: Served, source: str, stack: ExitStack) -> list[bool]:
    """One at a time: of two that come at the same moment to the last place, neither may get it."""
    return [_is_answered(stack.enter_context(served.connect(source=source))) for _ in range(TRIED)]


def test_limits_are_kept_over_all_network_processes(tmp_path: Path) -> None:
    settings = {
        "num.network.threads": str(NETWORKS),
        "max.connections.per.ip": str(OF_AN_ADDRESS),
        "max.connections": str(OF_ALL),
    }
    with Served(tmp_path, settings) as served, ExitStack() as stack:
        eventually(lambda: served.metric(CONNECTED) == 0, what="nobody is left of the start")
        first = stack.enter_context(ExitStack())
        assert _answered(served, "127.0.0.1", first) == [True] * OF_AN_ADDRESS + [False] * (TRIED - OF_AN_ADDRESS)
        left = OF_ALL - OF_AN_ADDRESS
        assert _answered(served, "127.0.0.2", stack) == [True] * left + [False] * (TRIED - left)
        for source in ("127.0.0.1", "127.0.0.2"):
            # Each process says it once a minute for an address.
            assert [line for line in served.lines(" rejected: ") if source in line]
        first.close()
        eventually(served.is_open, what="there is a place again")
