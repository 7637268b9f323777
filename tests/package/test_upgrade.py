"""From one version to the next and back, and what is left when the package goes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkad import __version__
from tests.package.companion import Companion
from tests.package.conftest import OLDER, Boot
from tests.package.machine import Machine, Overlay, run_in_tree
from tests.package.test_deaths import await_replacement
from tests.tools.wheels import PLUGIN

INSTALL = "apt-get -qq install -y --no-install-recommends --allow-downgrades -o Dpkg::Options::=--force-confold"
CODE = "/usr/lib/kafkad/lib/python3.11/site-packages/kafkad"
PLUGINS = "/usr/local/lib/kafkad/plugins"


@pytest.fixture
def older(boot: Boot, older_tree: Path) -> Machine:
    """A machine of its own that has the older version, with both packages at hand."""
    return boot(older_tree)


def version(machine: Machine) -> str:
    return machine.run("kafkad --version").split()[2]


def test_upgrade_and_downgrade_under_load_lose_nothing(older: Machine) -> None:
    assert older.is_active() and version(older) == OLDER
    older.run("echo '# edited by the administrator' >>/etc/kafkad/server.properties")
    (older.root / PLUGINS.lstrip("/")).mkdir(parents=True, exist_ok=True)
    (older.root / "srv/kept.py").write_text(PLUGIN.format(policy="kept"))
    older.run("kafkad plugins install /srv/kept.py")
    older.run("printf 'listeners=PLAINTEXT://127.0.0.1:9093\\nkafkad.metrics.listener=\\n' >/etc/kafkad/x.properties")
    older.run("systemctl start kafkad@x")
    with Companion(older, "tests.package.load", "9092", first="producing") as load:
        for package, expected in (("current", __version__), ("older", OLDER), ("current", __version__)):
            older.run(f"{INSTALL} /srv/{package}.deb")
            assert older.is_active() and version(older) == expected
            assert older.is_active("kafkad@x")
        assert load.end().endswith("records")
    assert "edited by the administrator" in older.run("cat /etc/kafkad/server.properties")
    assert "cleanup policy kept" in older.run("kafkad plugins list")
    pid = older.main_pid()
    assert older.run(f"readlink /proc/{pid}/exe") == "/usr/bin/python3.11"
    assert "kafkad_deleted" not in older.run(f"grep -o 'kafkad.*(deleted)' /proc/{pid}/maps || true")


def test_upgrade_refuses_nobody(older: Machine) -> None:
    with Companion(older, "tests.package.knocking", "9092", first="knocking") as clients:
        for package in ("current", "older"):
            older.run(f"{INSTALL} /srv/{package}.deb")
        came, refused, *why = clients.end().split()
    assert int(came) > 1 and refused == "0", f"{refused} of {came} were refused: {why}"


def test_broker_whose_files_are_being_replaced_goes_on_until_its_restart(older: Machine) -> None:
    with Companion(older, "tests.package.load", "9092", first="producing") as load:
        older.run("dpkg --unpack /srv/current.deb")
        # dpkg has put new files in place of the old ones; the worst of a moment in between is that there are none.
        older.run(f"mv {CODE} /srv/away")
        for title in ("worker-0", "network-0", "controller-0", "cleaner-0", "reporter-0"):
            old = older.pid_of(title)
            older.run(f"kill -KILL {old}")
            await_replacement(older, title, old)
        older.run(f"mv /srv/away {CODE}; dpkg --configure kafkad")
        assert older.is_active() and older.show("NRestarts") == "0" and version(older) == __version__
        assert load.end().endswith("records")
    assert __version__ in older.journal("--grep 'is ready after'")


def test_service_that_runs_without_being_enabled_runs_after_an_upgrade(older: Machine) -> None:
    older.run("systemctl disable kafkad")
    older.run(f"{INSTALL} /srv/current.deb")
    assert older.is_active() and older.run("systemctl is-enabled kafkad || true") == "disabled"


def test_service_that_was_switched_off_stays_off_over_an_upgrade(older: Machine) -> None:
    older.run("systemctl disable --now kafkad")
    older.run(f"{INSTALL} /srv/current.deb")
    assert older.run("systemctl is-enabled kafkad || true") == "disabled" and not older.is_active()


def test_purge_keeps_the_records_and_removes_the_rest(boot: Boot, installed_tree: Path) -> None:
    machine = boot(installed_tree)
    machine.run("kafkad topics create kept --partitions 1")
    machine.run("apt-get -qq remove -y kafkad")
    assert machine.run("ls -d /etc/kafkad/server.properties /var/lib/kafkad/kept-0")
    assert "plugins" not in machine.run("apt-get -qq purge -y kafkad 2>&1")
    assert machine.run("ls -d /var/lib/kafkad/kept-0")
    for path in ("/etc/kafkad", "/usr/lib/kafkad", "/usr/bin/kafkad", "/run/kafkad", PLUGINS):
        machine.run(f"test ! -e {path}")
    assert machine.run("find /etc /lib/systemd /var/lib/systemd -name '*kafkad*' ! -path '*/passwd*'") == ""


def test_purge_leaves_the_plugins_of_the_administrator_and_says_where(changed_tree: Path) -> None:
    run_in_tree(changed_tree, f"echo >{PLUGINS}/mine.py")
    said = run_in_tree(changed_tree, "apt-get -qq purge -y kafkad 2>&1")
    assert f"kafkad: the plugins in {PLUGINS} are not removed; to remove them: rm -r {PLUGINS}" in said
    assert [file.name for file in (changed_tree / PLUGINS.lstrip("/")).iterdir()] == ["mine.py"]


def test_purge_that_was_told_so_before_deletes_the_records_of_all_brokers(changed_tree: Path) -> None:
    run_in_tree(changed_tree, "mkdir -p /var/lib/kafkad/kept-0 /var/lib/kafkad@x/kept-0")
    run_in_tree(changed_tree, "echo 'kafkad kafkad/purge_data boolean true' | debconf-set-selections")
    run_in_tree(changed_tree, "apt-get -qq purge -y kafkad")
    run_in_tree(changed_tree, "test ! -e /var/lib/kafkad; test ! -e /var/lib/kafkad@x; test ! -e /etc/kafkad")


@pytest.fixture
def changed_tree(installed_tree: Path, tmp_path: Path) -> Iterator[Path]:
    """The installed package, not running: dpkg's scripts do the same to files."""
    with Overlay(installed_tree, tmp_path / "layer") as overlay:
        yield overlay.root
