"""What all tests share: asserts outside test modules explain themselves, failures show what the brokers printed, and a
run says how to repeat its random seeds.
"""

import os
import re
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

pytest.register_assert_rewrite("bench.brokers", "tests.tools", "tests.compat", "tests.daemon")

from bench.brokers.broker import RunningBroker  # noqa: E402  its asserts are to be rewritten first
from tests import amounts  # noqa: E402
from tests.mutants import RecordedSeedLost  # noqa: E402


def pytest_configure() -> None:
    """Before xdist starts its workers, which inherit the first seed."""
    try:
        amounts.first_seed()
        examples = amounts.amount("examples")
    except amounts.WrongAmounts as error:
        raise pytest.UsageError(str(error)) from None
    # A busy machine fails no test.
    busy = [HealthCheck.too_slow]
    settings.register_profile("kafkad", max_examples=examples, deadline=None, suppress_health_check=busy)
    settings.load_profile("kafkad")


def pytest_report_header() -> str:
    return f"amounts: {_repeated()} repeats the random seeds"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    # Among a hundred warnings of libraries nobody sees them.
    for warning in terminalreporter.stats.get("warnings", ()):
        for line in re.findall(rf"{RecordedSeedLost.__name__}: (.+)", warning.message):
            terminalreporter.write_line(line, yellow=True)
    if failed := [*terminalreporter.stats.get("failed", ()), *terminalreporter.stats.get("error", ())]:
        for report in failed:
            # The list of pytest has no error where the name of the test fills the line.
            crash = getattr(report.longrepr, "reprcrash", None)
            error = str(report.longrepr if crash is None else crash.message).strip().partition("\n")[0]
            terminalreporter.write_line(f"FAILED {report.nodeid} - {error}")
        terminalreporter.write_line(f"{_repeated()} repeats the random seeds of this run")


def _repeated() -> str:
    return f'{amounts.VARIABLE}="{os.environ[amounts.VARIABLE]}"'


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """The brokers that are running now: those that several tests share. One of a single test prints when it ends."""
    report = yield
    if report.failed:
        report.sections += [(f"{broker.name} on {broker.bootstrap}", broker.tail()) for broker in RunningBroker.running]
    return report
