"""What kills or stops parts of the service, and what its clients notice of that."""

from bench.brokers.processes import eventually
from tests.package.companion import Companion
from tests.package.machine import Machine

CLEAN_MARK = "/var/lib/kafkad/.kafka_cleanshutdown"
LOAD = ("tests.package.load", "9092")
KNOCKING = ("tests.package.knocking", "9092")


def test_killed_child_is_replaced_under_load_and_nothing_is_lost(machine: Machine) -> None:
    pid = machine.main_pid()
    with Companion(machine, *LOAD, first="producing") as load:
        for title in ("worker-0", "network-0", "controller-0"):
            old = machine.pid_of(title)
            machine.run(f"kill -KILL {old}")
            await_replacement(machine, title, old)
        assert load.end().endswith("records")
    assert machine.main_pid() == pid


def test_killed_supervisor_is_started_again_under_load_and_nothing_is_lost(machine: Machine) -> None:
    pid = machine.main_pid()
    with Companion(machine, *LOAD, first="producing") as load:
        machine.run(f"kill -KILL {pid}")
        eventually(
            lambda: machine.is_active() and machine.show("MainPID") not in ("0", str(pid)),
            what="a new supervisor",
        )
        assert load.end().endswith("records")
    assert machine.show("NRestarts") == "1"
    titles = machine.run("pgrep -f '^kafkad '").split()
    assert len(titles) == 5, "what the killed one had left is gone"


def test_child_that_hangs_is_replaced_by_the_supervisor(machine: Machine) -> None:
    pid, worker = machine.main_pid(), machine.pid_of("worker-0")
    with Companion(machine, *LOAD, first="producing") as load:
        machine.run(f"kill -STOP {worker}")
        await_replacement(machine, "worker-0", worker)
        assert load.end().endswith("records")
    assert machine.main_pid() == pid
    assert "killing worker-0: its heartbeat has stopped" in machine.journal("-p err")


def test_supervisor_that_hangs_is_replaced_by_the_service_manager(machine: Machine) -> None:
    pid = machine.main_pid()
    machine.run(f"kill -STOP {pid}")
    eventually(lambda: machine.show("NRestarts") == "1" and machine.is_active(), what="a new broker")
    assert machine.main_pid() != pid
    assert "Watchdog timeout" in machine.journal()


def test_stop_under_load_is_clean_and_nothing_is_lost(machine: Machine) -> None:
    with Companion(machine, *LOAD, first="producing") as load:
        machine.run("systemctl stop kafkad")
        assert machine.show("Result") == "success"
        assert machine.run(f"test -e {CLEAN_MARK} && echo clean") == "clean"
        machine.run("systemctl start kafkad")
        assert load.end().endswith("records")


def test_restart_refuses_nobody(machine: Machine) -> None:
    with Companion(machine, *KNOCKING, first="knocking") as clients:
        machine.run("systemctl restart kafkad; systemctl restart kafkad")
        came, refused, *why = clients.end().split()
    assert int(came) > 1 and refused == "0", f"{refused} of {came} were refused: {why}"


def await_replacement(machine: Machine, title: str, old: int) -> None:
    """Until the process of this name is another one than `old`."""

    def is_replaced() -> bool:
        found = machine.run(f"pgrep -f '^kafkad {title}$' || true").split()
        return len(found) == 1 and int(found[0]) != old

    eventually(is_replaced, what=f"a new {title}")
