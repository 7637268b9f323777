"""What all tests share: asserts outside test modules explain themselves, failures show what the brokers printed."""

from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

pytest.register_assert_rewrite("bench.brokers", "tests.tools", "tests.compat", "tests.daemon")

from bench.brokers.broker import RunningBroker  # noqa: E402  its asserts are to be rewritten first

# A busy machine fails no test.
settings.register_profile("kafkad", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("kafkad")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """The brokers that are running now: those that several tests share. One of a single test prints when it ends."""
    report = yield
    if report.failed:
        report.sections += [(f"{broker.name} on {broker.bootstrap}", broker.tail()) for broker in RunningBroker.running]
    return report
