"""The fixture as a stranger's project uses it: pytest runs of their own, in folders of their own, real ones."""

import ast
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from bench.brokers.processes import WITHIN_S, eventually, read_process

_SERVES = """
from kafkad.client.broker_client import BrokerClient

def test_serves(kafkad_broker):
    with BrokerClient(kafkad_broker.bootstrap) as client:
        client.create_topic("orders", partitions=-1, replication_factor=-1, configs={})
        assert len(client.topics(["orders"])[0].partitions) == PARTITIONS
    assert kafkad_broker.log_dir.is_dir()
    assert kafkad_broker.bootstrap == f"{kafkad_broker.host}:{kafkad_broker.port}"
    print("served by", kafkad_broker.pid, flush=True)

def test_serves_again(kafkad_broker):
    print("served by", kafkad_broker.pid)
"""
_HANGS = """
import signal

def test_hangs(kafkad_broker, kafkad_broker_session):
    print("served by", kafkad_broker.pid, kafkad_broker_session.pid, flush=True)
    signal.pause()
"""


def _command(*arguments: str) -> list[str]:
    # Named, so that it is the plugin of this tree whatever is installed; not loaded twice by entry point.
    plugin = ["-p", "no:kafkad", "-p", "kafkad.pytest_plugin"]
    return [sys.executable, "-m", "pytest", "-s", "-p", "no:cacheprovider", *plugin, *arguments]


def _environment(folder: Path) -> dict[str, str]:
    temporary = folder / "tmp"
    temporary.mkdir()
    return {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def _run(folder: Path, source: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    (folder / "test_theirs.py").write_text(source)
    return subprocess.run(
        _command(*arguments),
        cwd=folder,
        env=_environment(folder),
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
    )


def _brokers(printed: str) -> list[int]:
    return [int(pid) for line in re.findall(r"served by ([\d ]+)", printed) for pid in line.split()]


def test_each_test_has_a_broker_of_its_own_with_its_overrides_and_nothing_is_left(tmp_path: Path) -> None:
    """Those of the command line win."""
    overrides = ("-o", "kafkad_overrides=num.partitions=3", "--kafkad-override", "num.partitions=5")
    done = _run(tmp_path, _SERVES.replace("PARTITIONS", "5"), *overrides)
    assert done.returncode == 0, done.stdout
    first, second = _brokers(done.stdout)
    assert first != second
    assert read_process(first) is None
    assert list((tmp_path / "tmp").iterdir()) == []


def test_scope_makes_one_broker_do_for_the_whole_run(tmp_path: Path) -> None:
    done = _run(tmp_path, _SERVES.replace("PARTITIONS", "1"), "-o", "kafkad_scope=session")
    assert done.returncode == 0, done.stdout
    assert len(set(_brokers(done.stdout))) == 1


def test_unknown_scope_is_refused_by_name(tmp_path: Path) -> None:
    done = _run(tmp_path, _SERVES, "-o", "kafkad_scope=forever")
    assert done.returncode != 0
    assert "kafkad_scope: expected one of function, class, module, package, session" in done.stdout + done.stderr


def test_broker_that_refuses_its_options_fails_the_test_with_its_reason(tmp_path: Path) -> None:
    done = _run(tmp_path, _SERVES, "-x", "--kafkad-override", "no.such.option=1")
    assert done.returncode == 1
    assert "BrokerDidNotStart: kafkad: --override: no.such.option: unknown option" in done.stdout
    assert list((tmp_path / "tmp").iterdir()) == []


def test_killed_test_run_leaves_neither_broker_nor_folder(tmp_path: Path) -> None:
    (tmp_path / "test_theirs.py").write_text(_HANGS)
    with subprocess.Popen(
        _command(), cwd=tmp_path, env=_environment(tmp_path), stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        brokers = next(_brokers(line) for line in run.stdout if "served by" in line)
        run.send_signal(signal.SIGKILL)
    assert len(brokers) == 2
    eventually(lambda: not any(map(read_process, brokers)), what="the brokers stop")
    eventually(lambda: not list((tmp_path / "tmp").iterdir()), what="their folders are removed")


def test_plugin_imports_nothing_of_the_broker() -> None:
    program = (
        "import sys, pytest, kafkad.pytest_plugin;"
        "print([name for name in sys.modules if name.startswith(('kafkad.', 'kio', 'zmq', 'click'))])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    free_port = {"kafkad.adapters", "kafkad.adapters.links", "kafkad.adapters.links.free_port"}
    assert set(ast.literal_eval(done.stdout)) == {"kafkad.native", "kafkad.pytest_plugin"} | free_port
