"""How often the service may be started: as often as somebody asks, and not for ever when it crashes."""

import pytest

from bench.brokers.processes import eventually
from tests.package.machine import Machine

MORE_THAN_THE_LIMIT = 7


@pytest.fixture(autouse=True)
def interval(machine: Machine) -> None:
    """The unit counts within a minute: on a slow machine the starts of these tests would be spread over more."""
    for unit in ("kafkad", "kafkad@"):
        folder = f"/etc/systemd/system/{unit}.service.d"
        machine.run(f"mkdir -p {folder}; printf '[Unit]\\nStartLimitIntervalSec=1d\\n' >{folder}/interval.conf")
    machine.run("systemctl daemon-reload; systemctl restart kafkad")


def test_restarts_that_somebody_asks_for_never_leave_the_broker_down(machine: Machine) -> None:
    for _ in range(MORE_THAN_THE_LIMIT):
        machine.run("systemctl restart kafkad")
    assert machine.is_active()
    for _ in range(MORE_THAN_THE_LIMIT):
        machine.run("systemctl stop kafkad; systemctl start kafkad")
    assert machine.is_active() and machine.show("NRestarts") == "0"


def test_mended_file_is_taken_however_often_a_bad_one_was_tried(machine: Machine) -> None:
    machine.run("echo no.such.option=1 >>/etc/kafkad/server.properties")
    for _ in range(MORE_THAN_THE_LIMIT):
        machine.fails("systemctl restart kafkad")
        assert (machine.show("Result"), machine.show("ExecMainStatus")) == ("exit-code", "2")
    machine.run("sed -i '/^no.such.option/d' /etc/kafkad/server.properties; systemctl start kafkad")
    assert machine.is_active()


def test_broker_that_crashes_again_and_again_is_given_up_and_comes_back_when_it_is_asked_to(machine: Machine) -> None:
    incarnations: set[int] = set()

    def is_given_up() -> bool:
        if machine.show("ActiveState") == "failed":
            return True
        pid = int(machine.show("MainPID"))
        if pid > 1:
            incarnations.add(pid)
            machine.run(f"kill -KILL {pid} 2>/dev/null || true")
        return False

    eventually(is_given_up, what="the service manager gives up")
    assert "Start request repeated too quickly" in machine.journal()
    assert len(incarnations) == 6, "the one that was asked for, and five that follow crashes"
    machine.run("systemctl reset-failed kafkad; systemctl start kafkad")
    for _ in range(MORE_THAN_THE_LIMIT):
        machine.run("systemctl restart kafkad")
    assert machine.is_active()


def test_instances_are_counted_for_themselves(machine: Machine) -> None:
    settings = "listeners=PLAINTEXT://127.0.0.1:9093\\nkafkad.metrics.listener=\\n"
    machine.run(f"printf '{settings}' >/etc/kafkad/c-1.properties")
    for _ in range(MORE_THAN_THE_LIMIT):
        machine.run("systemctl restart kafkad@c-1")
    assert machine.is_active("kafkad@c-1")
