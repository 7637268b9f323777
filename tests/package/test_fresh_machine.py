"""`make run` on a machine that has only python3, make and the checkout."""

import os
from pathlib import Path

from bench.brokers.ports import free_port
from tests.package.machine import BUILD_S, CHECKOUT, Overlay, call, run_in_tree

BARE = "apt-get -qq update; apt-get -qq install -y --no-install-recommends python3 make ca-certificates"


def test_one_command_serves_and_the_printed_lines_work(fresh_tree: Path, tmp_path: Path) -> None:
    with Overlay(fresh_tree, tmp_path / "bare") as bare:
        run_in_tree(bare.root, BARE)
        settings = {"FRESH_TREE": bare.root, "FRESH_FOLDER": tmp_path / "fresh", "PORT": free_port()}
        said = call(
            ["env", *(f"{name}={value}" for name, value in settings.items()), "tests/packaging/fresh-machine.sh"],
            within=BUILD_S,
            cwd=CHECKOUT,
        )
    call(["rm", "-rf", "--one-file-system", os.fspath(tmp_path / "fresh")])
    assert said.splitlines()[-1] == "PASSED"
