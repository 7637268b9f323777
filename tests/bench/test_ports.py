"""A broker binds its ports a moment after they were chosen."""

from bench.brokers.ports import free_port


def test_no_port_is_given_twice() -> None:
    assert len({free_port() for _ in range(300)}) == 300
