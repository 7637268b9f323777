"""What the files of the Debian package promise, before anybody builds it."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from kafkad import __version__
from kafkad.core.supervision.stop_sequence import STAGE_MS

CHECKOUT = Path(__file__).parents[2]
PACKAGING = CHECKOUT / "packaging"


def test_changelog_of_the_package_begins_with_this_version() -> None:
    first = (PACKAGING / "debian" / "changelog").read_text().splitlines()[0]
    assert first.startswith(f"kafkad ({__version__}) ")


def test_changes_begin_with_this_version() -> None:
    titles = re.findall(r"^## (\S+)", (CHECKOUT / "CHANGES.md").read_text(), re.MULTILINE)
    assert titles[0] == __version__


def test_version_is_one_of_the_scheme() -> None:
    """As docs/installation.md describes it."""
    assert re.fullmatch(r"\d+\.\d+\.\d+", __version__)


def test_instances_are_the_service_under_another_name() -> None:
    service = (PACKAGING / "systemd" / "kafkad.service").read_text().splitlines()
    instance = (PACKAGING / "systemd" / "kafkad@.service").read_text().splitlines()
    assert [line for line in instance if line not in service] == [
        "Description=kafkad %i, a broker for clients of Apache Kafka",
        "AssertPathExists=/etc/kafkad/%i.properties",
        "ExecStart=/usr/bin/kafkad start /etc/kafkad/%i.properties",
        "ExecReload=/usr/bin/kafkad check-config /etc/kafkad/%i.properties",
        *[line for line in instance if line.startswith("ExecStopPost=")],
        "StateDirectory=kafkad@%i",
        "RuntimeDirectory=kafkad@%i",
    ]
    assert len(instance) == len(service) + 1


@pytest.mark.parametrize("unit", ["kafkad.service", "kafkad@.service"])
@pytest.mark.parametrize(("result", "runs"), [("success", 0), ("exit-code", 0), ("signal", 1), ("oom-kill", 1)])
def test_a_crash_of_the_service_ends_the_session_of_its_broker(
    unit: str, result: str, runs: int, tmp_path: Path
) -> None:
    """As systemd runs the line; `kafkad` is one that says how it was called."""
    found = re.search(r"^ExecStopPost=-(.*)", (PACKAGING / "systemd" / unit).read_text(), re.M)
    assert found is not None
    called = tmp_path / "kafkad"
    called.write_text('#!/bin/sh\necho "$@"\n')
    called.chmod(0o755)
    command = [word.replace("$$", "$").replace("/usr/bin/kafkad", str(called)) for word in shlex.split(found[1])]
    said = subprocess.run(command, env={"SERVICE_RESULT": result}, check=True, capture_output=True, text=True).stdout
    of = "%i" if "@" in unit else "server"
    assert said == f"brokers end-session /etc/kafkad/{of}.properties\n" * runs


def test_every_requirement_is_locked_with_a_hash() -> None:
    requirements = re.search(r"install_requires =\n((?: .*\n)+)", (CHECKOUT / "setup.cfg").read_text())
    assert requirements is not None
    wanted = {re.split(r"[ =<>]", line.strip())[0].lower() for line in requirements[1].splitlines()}
    lines = (PACKAGING / "debian" / "requirements.lock").read_text().splitlines()
    locked = [line for line in lines if not line.startswith("#")]
    assert all(re.fullmatch(r"\S+==\S+ --hash=sha256:[0-9a-f]{64}", line) for line in locked)
    assert wanted - {line.partition("==")[0].lower() for line in locked} == set()


def test_overrides_of_lintian_have_their_reasons() -> None:
    lines = (PACKAGING / "debian" / "kafkad.lintian-overrides").read_text().splitlines()
    for before, line in zip(["", *lines], lines, strict=False):
        assert line.startswith(("#", "kafkad: ")) and (line.startswith("#") or before != ""), line


def test_stages_of_a_stop_fit_into_the_time_that_the_unit_gives() -> None:
    from_unit = re.search(r"^TimeoutStopSec=(\d+)", (PACKAGING / "systemd" / "kafkad.service").read_text(), re.M)
    assert from_unit is not None
    assert sum(STAGE_MS.values()) < 1000 * int(from_unit[1])
