"""A broker binds its ports a moment after they were chosen."""

import pytest

from bench.brokers.ports import free_port, own_ports


def test_no_port_is_given_twice() -> None:
    assert len({free_port() for _ in range(300)}) == 300


def test_no_two_processes_of_tests_share_a_port(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = []
    for lane in range(3):
        for worker in range(2):
            monkeypatch.setenv("KAFKAD_TEST_LANE", f"{lane}/3")
            monkeypatch.setenv("PYTEST_XDIST_WORKER", f"gw{worker}")
            monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", "2")
            parts.append(set(own_ports()))
    assert sum(map(len, parts)) == len(set().union(*parts)) == 10_000
