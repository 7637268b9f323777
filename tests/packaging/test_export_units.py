"""The units of an export: what they start exists, and they take nothing from the broker."""

import configparser
import shlex
from pathlib import Path

from bench.brokers.jars import SPARK_KAFKA_VERSION
from kafkad_lakehouse.cli.export import run

ROOT = Path(__file__).parents[2]
SYSTEMD = ROOT / "packaging" / "systemd"


def unit(name: str) -> configparser.ConfigParser:
    parsed = configparser.ConfigParser(interpolation=None, strict=False)
    parsed.optionxform = str  # type: ignore[assignment, method-assign]
    parsed.read_string((SYSTEMD / name).read_text())
    return parsed


def test_the_unit_starts_a_command_that_there_is() -> None:
    service = unit("kafkad-export@.service")["Service"]
    _, group, verb, *options = shlex.split(service["ExecStart"])
    assert (group, verb) == ("export", "run")
    known = {name for parameter in run.params for name in parameter.opts}
    assert {each for each in options if each.startswith("--")} <= known


def test_the_unit_comes_after_the_broker_in_everything_and_writes_only_its_own_folder() -> None:
    service = unit("kafkad-export@.service")["Service"]
    assert service["Type"] == "oneshot" and int(service["Nice"]) > 0
    assert service["IOSchedulingClass"] == "idle" and int(service["CPUWeight"]) < 100
    assert (service["ProtectSystem"], service["DynamicUser"]) == ("strict", "yes")
    assert "ReadWritePaths" not in service and service["SupplementaryGroups"] == "kafkad"


def test_there_is_a_kafka_source_for_the_spark_that_is_installed() -> None:
    """Which it wants in exactly its version."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    wanted = setup["options.extras_require"]["spark"].splitlines()
    assert f"pyspark == {SPARK_KAFKA_VERSION}" in wanted


def test_the_timer_is_of_the_unit() -> None:
    timer = unit("kafkad-export@.timer")
    assert "Unit" not in timer["Timer"] and timer["Timer"]["OnCalendar"] == "*:0/5"
    assert timer["Install"]["WantedBy"] == "timers.target"
