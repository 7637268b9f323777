"""The broker as a service: it comes up, serves, is confined, reloads, refuses what can't be."""

import re
import resource
import subprocess

from bench.brokers.processes import WITHIN_S, eventually
from tests.package.machine import Machine, call

WANTED_FILES = 1_048_576
HOST_ADDRESS, BROKER_ADDRESS = "198.18.0.1", "198.18.0.2"
"""A network for tests between hosts (RFC 2544), which nobody's machines are in."""


def test_broker_serves_after_boot_without_a_line_of_configuration(machine: Machine) -> None:
    assert machine.show("StatusText") == "serving"
    machine.kcat("-P", "-b", "127.0.0.1:9092", "-t", "demo", say="hello\n")
    assert machine.kcat("-C", "-b", "127.0.0.1:9092", "-t", "demo", "-e", "-q") == "hello\n"
    owners = machine.run(f"stat -c %U /proc/{machine.main_pid()} /var/lib/kafkad/demo-0 /run/kafkad")
    assert owners.split() == ["kafkad"] * 3
    assert machine.run("ls -A /var/log/kafkad 2>&1 || true").endswith("No such file or directory")
    assert "is ready after" in machine.journal()


def test_limits_of_the_unit_are_those_that_a_broker_needs(machine: Machine) -> None:
    assert machine.show("LimitNOFILE") == machine.show("LimitNOFILESoft") == str(WANTED_FILES)
    assert machine.show("OOMScoreAdjust") == "-500"
    # Where these tests run may be allowed less than that.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    had = int(machine.run(f"grep 'open files' /proc/{machine.main_pid()}/limits").split()[3])
    assert had >= min(WANTED_FILES, hard)
    facts = [machine.show(name) for name in ("TimeoutStopUSec", "WatchdogUSec", "KillMode", "Type")]
    assert facts == ["3min", "15s", "mixed", "notify"]
    assert (machine.show("StartLimitBurst"), machine.show("StartLimitIntervalUSec")) == ("5", "1min")


def test_units_are_well_formed_and_confined(machine: Machine) -> None:
    assert machine.run("systemd-analyze verify --man=no kafkad.service kafkad@x.service 2>&1") == ""
    for unit in ("kafkad.service", "kafkad@x.service"):
        rated = machine.run(f"systemd-analyze security --no-pager {unit} | tail -1")
        found = re.search(r"exposure level for \S+: ([\d.]+)", rated)
        assert found and float(found[1]) <= 2.0, rated
    assert machine.journal("-p warning") == ""


def test_reload_reads_the_file_again_and_a_bad_one_changes_nothing(machine: Machine) -> None:
    pid = machine.main_pid()
    machine.run("echo log.retention.hours=1 >>/etc/kafkad/server.properties; systemctl reload kafkad")
    eventually(lambda: "log.retention.hours has a new value" in machine.journal(), what="a reload")
    machine.run("echo log.retention.hours=many >>/etc/kafkad/server.properties")
    machine.fails("systemctl reload kafkad")
    assert "log.retention.hours" in machine.journal()
    assert machine.main_pid() == pid and machine.is_active()


def test_configuration_that_can_not_be_used_is_not_tried_again(machine: Machine) -> None:
    machine.run("echo no.such.option=1 >>/etc/kafkad/server.properties")
    machine.fails("systemctl restart kafkad")
    facts = [machine.show(name) for name in ("ActiveState", "ExecMainStatus", "NRestarts")]
    assert facts == ["failed", "2", "0"]
    assert "no.such.option" in machine.journal()


def test_log_dirs_outside_the_sandbox_fail_with_the_command_that_lets_them_in(machine: Machine) -> None:
    machine.run("echo log.dirs=/srv/records >>/etc/kafkad/server.properties")
    machine.fails("systemctl restart kafkad")
    (line,) = (line for line in machine.journal().splitlines() if "/srv/records" in line)
    command = line.partition("as root, let this service write there with: ")[2]
    assert "/etc/systemd/system/kafkad.service.d/" in command
    machine.run(command)
    assert machine.is_active()
    assert "meta.properties" in machine.run("ls /srv/records")


def test_commented_line_opens_the_broker_to_the_network_and_the_start_warns(machine: Machine) -> None:
    with machine.connected("vh-kafkad", "vm-kafkad"):
        call(["ip", "address", "add", f"{HOST_ADDRESS}/30", "dev", "vh-kafkad"])
        call(["ip", "link", "set", "vh-kafkad", "up"])
        machine.run(f"ip address add {BROKER_ADDRESS}/30 dev vm-kafkad; ip link set vm-kafkad up")
        machine.run("sed -i '0,/^#listeners=/s//listeners=/' /etc/kafkad/server.properties; systemctl restart kafkad")
        assert "no authentication on " in machine.journal()
        kcat = ["kcat", "-b", f"{BROKER_ADDRESS}:9092", "-t", "far"]
        subprocess.run([*kcat, "-P"], input=b"from afar\n", check=True, timeout=WITHIN_S)
        assert call([*kcat, "-C", "-e", "-q"]) == "from afar\n"


def test_instances_are_brokers_of_their_own(machine: Machine) -> None:
    names = ("a", "b", "c-1")
    for port, name in enumerate(names, start=9093):
        settings = f"listeners=PLAINTEXT://127.0.0.1:{port}\\nkafkad.metrics.listener=\\n"
        machine.run(f"printf '{settings}' >/etc/kafkad/{name}.properties; systemctl start kafkad@{name}")
        machine.kcat("-P", "-b", f"127.0.0.1:{port}", "-t", f"only-{name}", say="hello\n")
    for port, name in enumerate(names, start=9093):
        topics = machine.run(f"kafkad topics list --bootstrap-server 127.0.0.1:{port}")
        assert topics.split()[0] == f"only-{name}" and "only-" not in topics.partition(f"only-{name}")[2]
        assert machine.run(f"ls -d /var/lib/kafkad@{name}/only-{name}-0")
    machine.run("systemctl kill --signal=KILL kafkad@b; systemctl stop kafkad@a")
    assert machine.is_active() and machine.is_active("kafkad@c-1")
    machine.fails("systemctl start kafkad@without-a-file")
