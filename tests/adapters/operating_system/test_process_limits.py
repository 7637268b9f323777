"""Limits of memory as the kernel tells them, of both versions of control groups."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from kafkad.adapters.operating_system.process_limits import data_limit, group_limit

MB = 1 << 20


def own(tmp_path: Path, text: str) -> Path:
    (tmp_path / "own").write_text(text)
    return tmp_path / "own"


def group(tmp_path: Path, path: str, name: str, value: str) -> None:
    (tmp_path / "groups" / path).mkdir(parents=True, exist_ok=True)
    (tmp_path / "groups" / path / name).write_text(value)


@pytest.mark.parametrize(
    ("inner", "outer", "limit"), [("max", "max", None), ("5", "9", 5), ("9", "5", 5), ("max", "7", 7)]
)
def test_the_smallest_of_the_groups_around_counts(tmp_path: Path, inner: str, outer: str, limit: int | None) -> None:
    group(tmp_path, "system.slice/kafkad.service", "memory.max", f"{inner}\n")
    group(tmp_path, "system.slice", "memory.max", f"{outer}\n")
    found = group_limit(own(tmp_path, "0::/system.slice/kafkad.service\n"), tmp_path / "groups")
    assert found == limit


def test_the_first_version_has_a_tree_for_memory(tmp_path: Path) -> None:
    group(tmp_path, "memory/docker/abc", "memory.limit_in_bytes", "160000000\n")
    group(tmp_path, "memory", "memory.limit_in_bytes", "9223372036854771712\n")
    lines = "9:name=systemd:/x\n4:cpu,cpuacct:/\n3:memory:/docker/abc\n0::/\n"
    assert group_limit(own(tmp_path, lines), tmp_path / "groups") == 160_000_000


def test_a_container_that_sees_the_path_of_its_host_has_its_own_group_at_the_root(tmp_path: Path) -> None:
    group(tmp_path, "memory", "memory.limit_in_bytes", "160000000\n")
    assert group_limit(own(tmp_path, "3:memory:/docker/abc\n"), tmp_path / "groups") == 160_000_000


def test_a_machine_without_control_groups_has_no_limit(tmp_path: Path) -> None:
    assert group_limit(tmp_path / "nothing", tmp_path) is None


def test_the_limit_of_this_process() -> None:
    program = "from kafkad.adapters.operating_system.process_limits import data_limit; print(data_limit())"
    command = ["prlimit", f"--data={300 * MB}:", sys.executable, "-c", program]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == f"{300 * MB}\n"
    soft, _ = resource.getrlimit(resource.RLIMIT_DATA)
    assert (data_limit() is None) == (soft == resource.RLIM_INFINITY)
