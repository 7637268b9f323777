"""Plugins on a machine with the package: installed, used by the broker, removed; and the examples.

What is refused: tests/cli/test_plugin_install.py."""

from pathlib import Path

from bench.brokers.processes import eventually
from tests.package.machine import Machine
from tests.tools.wheels import plugin_wheel

PLUGINS = "/usr/local/lib/kafkad/plugins"
EXAMPLES = "/usr/share/doc/kafkad/examples"


def test_plugin_that_is_dropped_in_is_used(machine: Machine) -> None:
    machine.run(f"cp {EXAMPLES}/csv_metrics.py {PLUGINS}/")
    settings = (
        "kafkad.metrics.reporters=prometheus,csv",
        "kafka.csv.metrics.dir=/var/lib/kafkad/metrics",
        "kafka.metrics.polling.interval.secs=1",
    )
    machine.run(f"printf '%s\\n' {' '.join(settings)} >>/etc/kafkad/server.properties")
    machine.run("systemctl restart kafkad")
    written = "ls /var/lib/kafkad/metrics | grep csv || true"
    eventually(lambda: machine.run(written), what="the plugin writes its files")


def test_wheel_is_installed_without_a_network_and_used_by_the_broker(machine: Machine, tmp_path: Path) -> None:
    wheel = plugin_wheel(tmp_path, "my-plugin", requires=["kafkad", "pluggy"])
    (machine.root / "srv" / wheel.name).write_bytes(wheel.read_bytes())
    assert "systemctl restart kafkad" in machine.run(f"kafkad plugins install /srv/{wheel.name}")
    machine.run("systemctl restart kafkad; kafkad topics create t --config cleanup.policy=my-plugin")
    assert "cleanup policy my-plugin" in machine.run("kafkad plugins list")
    assert f"{PLUGINS}/packages/my-plugin" in machine.run(f"ls -d {PLUGINS}/packages/*")
    machine.run("kafkad plugins remove my-plugin; systemctl restart kafkad")
    assert "my-plugin" not in machine.run("kafkad plugins list")


def test_every_example_can_be_loaded_together(machine: Machine) -> None:
    plugins = f"$(grep -l hookimpl {EXAMPLES}/*.py {EXAMPLES}/*/*.py)"
    machine.run(f"cp {plugins} {PLUGINS}/")
    listed = machine.run("kafkad plugins list")
    for kind in ("cleanup policy keep-newest", "metrics reporter csv", "quota manager client-id-prefix"):
        assert kind in listed
    assert "leader election strategy rack-or-last-replica" in listed
    machine.run("systemctl restart kafkad")
