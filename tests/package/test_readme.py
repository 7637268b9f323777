"""The installation section of README.md, as it is printed there."""

import os
import re
import signal
import subprocess
from pathlib import Path

from bench.brokers.processes import eventually, is_alive, process_tree
from tests.package.conftest import Boot
from tests.package.machine import CHECKOUT

SECTION = re.search(r"## Installation\n(.*?)\n## ", (CHECKOUT / "README.md").read_text(), re.DOTALL)
assert SECTION is not None
WITH_ROOT, WITHOUT_ROOT = re.findall(r"```sh\n(.*?)```", SECTION[1], re.DOTALL)


def test_fresh_debian_serves_after_the_printed_commands(boot: Boot, fresh_tree: Path, debs: dict[str, Path]) -> None:
    machine = boot(fresh_tree)
    (machine.root / "root" / debs["current"].name).write_bytes(debs["current"].read_bytes())
    # Somebody who says yes where apt asks.
    (machine.root / "etc/apt/apt.conf.d/90yes").write_text('APT::Get::Assume-Yes "true";\n')
    printed = ""
    for line in WITH_ROOT.splitlines():
        printed = machine.run(f"cd /root; {line}")
    assert printed == "hello"
    assert machine.is_active() and machine.show("NRestarts") == "0"


def test_wheel_runs_without_being_installed(dist: Path, tmp_path: Path) -> None:
    (line,) = WITHOUT_ROOT.splitlines()
    environment = {**os.environ, "PIPX_HOME": str(tmp_path / "pipx"), "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        line, shell=True, cwd=dist.parent, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as running:
        assert running.stdout is not None
        try:
            assert any("is ready after" in said for said in running.stdout)
            tree = process_tree(running.pid)
        finally:
            os.killpg(running.pid, signal.SIGINT)
    eventually(lambda: not any(map(is_alive, tree)), what="every process ends")
    assert list(tmp_path.glob("kafkad-dev-*")) == []


def test_source_distribution_has_what_the_wheel_is_made_of(dist: Path) -> None:
    names = sorted(path.name.partition("-")[0] + path.name[-7:] for path in dist.iterdir())
    assert names == ["kafkad.tar.gz", "kafkad_64.whl"]
