"""The first steps of README.md, typed as they are printed there, at another port."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from bench.brokers.daemon import Kafkad
from bench.brokers.ports import free_port
from bench.brokers.processes import WITHIN_S

CHECKOUT = Path(__file__).parents[2]
README = (CHECKOUT / "README.md").read_text()
# The commands of the section ask the default address: nothing else is put in.
KAFKAD = f"""#!/bin/sh
case $1 in
    topics|groups|produce|consume) exec "{sys.executable}" -m kafkad "$@" --bootstrap-server $BOOTSTRAP ;;
    *) exec "{sys.executable}" -m kafkad "$@" ;;
esac
"""


def _section(title: str) -> str:
    (text,) = re.findall(rf"^## {title}\n(.*?)(?=^## )", README, re.DOTALL | re.MULTILINE)
    return str(text)


def _blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


FIRST_STEPS, METRICS = _section("First steps"), _section("Metrics")
KCAT, COMMAND_LINE = _blocks(FIRST_STEPS, "sh")
(PYTHON,) = _blocks(FIRST_STEPS, "python")
(CURL,) = _blocks(METRICS, "sh")


class Reader:
    """Somebody who types, in a folder where the broker's data is in `data`."""

    def __init__(self, broker: Kafkad, folder: Path) -> None:
        self._bootstrap = broker.bootstrap
        self._metrics = broker.overrides["kafkad.metrics.listener"]
        self._folder = folder
        command = folder / "bin" / "kafkad"
        command.parent.mkdir(parents=True)
        command.write_text(KAFKAD)
        command.chmod(0o755)
        (folder / "data").symlink_to(broker.log_dir)

    def types(self, text: str, *shell: str) -> str:
        here = text.replace("127.0.0.1:9092", self._bootstrap)
        path = f"{self._folder}/bin:{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "PYTHONPATH": str(CHECKOUT), "BOOTSTRAP": self._bootstrap}
        done = subprocess.run(
            [*shell, here], cwd=self._folder, env=environment, capture_output=True, text=True, timeout=WITHIN_S
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def reads(self, url: str) -> str:
        with urlopen(url.replace("127.0.0.1:9308", self._metrics), timeout=WITHIN_S) as page:
            return str(page.read(), "utf-8")


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    folder = tmp_path_factory.mktemp("readme")
    with Kafkad(folder / "broker", {"kafkad.metrics.listener": f"127.0.0.1:{free_port()}"}) as broker:
        yield Reader(broker, folder / "reader")


def test_kcat_gets_back_what_it_sent(reader: Reader) -> None:
    assert reader.types(KCAT, "bash", "-euc") == "hello\n"


def test_a_group_of_one_reads_what_python_sent(reader: Reader) -> None:
    assert reader.types(PYTHON, sys.executable, "-c") == "b'hello from Python'\n"


def test_every_command_shows_what_it_is_about(reader: Reader) -> None:
    printed = reader.types(COMMAND_LINE, "bash", "-euxc")
    records = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    assert {(record["key"], record["value"]) for record in records} == {("k1", "one"), ("k2", "two")}
    assert "PartitionCount: 3" in printed and "retention.ms=86400000" in printed
    assert "payload: two" in printed, "the last line dumps the partition of k2"


def test_metrics_and_health_are_where_they_are_said_to_be(reader: Reader) -> None:
    metrics, health = (reader.reads(url) for url in re.findall(r"http://\S+", CURL))
    for name in re.findall(r"`(kafkad?_\w+_\w+)`", METRICS):
        assert f"# TYPE {name} " in metrics
    assert json.loads(health)["serving"] is True
