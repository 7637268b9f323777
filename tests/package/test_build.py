"""The package as it is built: the same everywhere, honest about what it needs, without complaints of lintian."""

import subprocess
from pathlib import Path

import pytest

from tests.package.conftest import OLDER
from tests.package.machine import CHECKOUT, call


@pytest.fixture(scope="session")
def built_elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """From a clone in another folder, by somebody with another umask."""
    folder = tmp_path_factory.mktemp("elsewhere") / "a" / "deeper" / "folder"
    folder.mkdir(parents=True)
    files = subprocess.run(["git", "ls-files", "-z"], cwd=CHECKOUT, capture_output=True, check=True).stdout
    clone = folder / "clone"
    clone.mkdir()
    script = f'umask 077; tar -C "{CHECKOUT}" --null -T - -c | tar -C "{clone}" --no-same-permissions -x'
    subprocess.run(["sh", "-c", script], input=files, check=True)
    wheels = CHECKOUT / "build" / "wheels"
    script = f'umask 077; KAFKAD_DEB_WHEELS="{wheels}" "{clone}/packaging/debian/build.sh" "{folder}"'
    call(["sh", "-euc", script], within=1100)
    (package,) = folder.glob("*.deb")
    return package


def field(deb: Path, name: str) -> str:
    return call(["dpkg-deb", "--field", str(deb), name]).strip()


def test_two_builds_in_different_folders_are_equal_to_the_byte(debs: dict[str, Path], built_elsewhere: Path) -> None:
    assert debs["current"].read_bytes() == built_elsewhere.read_bytes()


def test_package_says_what_it_is_for(debs: dict[str, Path]) -> None:
    deb = debs["current"]
    assert field(deb, "Architecture") == "amd64"
    needs = field(deb, "Depends")
    assert "python3 (>= 3.11), python3 (<< 3.12), python3.11" in needs and "libc6 (>= 2." in needs
    contents = call(["dpkg-deb", "--contents", str(deb)])
    compiled = [line for line in contents.splitlines() if ".so" in line and "python3.11" in line]
    assert compiled and all("x86_64" in line or ".libs/" in line or "__mypyc" in line for line in compiled)
    assert any("kafkad/core/log/partition_log.cpython-311" in line for line in compiled)
    assert call(["dpkg-deb", "--info", str(deb), "conffiles"]) == "/etc/kafkad/server.properties\n"
    assert field(debs["older"], "Version") == OLDER


def test_every_option_of_the_conffile_is_commented(debs: dict[str, Path], tmp_path: Path) -> None:
    call(["dpkg-deb", "--extract", str(debs["current"]), str(tmp_path)])
    lines = (tmp_path / "etc/kafkad/server.properties").read_text().splitlines()
    assert [line for line in lines if line and not line.startswith("#")] == []
    assert "#listeners=PLAINTEXT://:9092" in lines
    assert (CHECKOUT / "etc/server.properties").read_text() in "\n".join(lines) + "\n"


def test_compiled_libraries_load(debs: dict[str, Path], tmp_path: Path) -> None:
    call(["dpkg-deb", "--extract", str(debs["current"]), str(tmp_path)])
    packages = tmp_path / "usr/lib/kafkad/lib/python3.11/site-packages"
    found = f"import sys; sys.path.insert(0, {str(packages)!r})"
    names = "cramjam, crc32c, lz4.frame, msgspec, numpy, re2, xxhash, zmq, zstandard"
    load = f"import {names}; assert {str(packages)!r} in numpy.__file__"
    call(["/usr/bin/python3.11", "-I", "-c", f"{found}; {load}"])


def test_lintian_has_nothing_to_say(debs: dict[str, Path]) -> None:
    said = call(["lintian", "--allow-root", "--fail-on", "error,warning", str(debs["current"])])
    assert said == ""


