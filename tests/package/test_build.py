"""The package as it is built, and what is in it."""

from pathlib import Path

import pytest

from tests.package.conftest import OLDER
from tests.package.machine import CHECKOUT, call, run_in_tree


@pytest.fixture(scope="module")
def extracted(debs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("extracted")
    call(["dpkg-deb", "--extract", str(debs["current"]), str(folder)])
    return folder


def field(deb: Path, name: str) -> str:
    return call(["dpkg-deb", "--field", str(deb), name]).strip()


def test_package_says_what_it_is_for(debs: dict[str, Path]) -> None:
    deb = debs["current"]
    assert field(deb, "Architecture") == "amd64"
    needs = field(deb, "Depends")
    assert "python3 (>= 3.11), python3 (<< 3.12), python3.11" in needs and "libc6 (>= 2." in needs
    contents = call(["dpkg-deb", "--contents", str(deb)])
    compiled = [line for line in contents.splitlines() if ".so" in line and "python3.11" in line]
    assert compiled and all("x86_64" in line or ".libs/" in line or "__mypyc" in line for line in compiled)
    assert any("kafkad/core/log/partition_log.cpython-311" in line for line in compiled)
    assert any(line.endswith("/kafkad_lakehouse/export/run.py") for line in contents.splitlines())
    assert call(["dpkg-deb", "--info", str(deb), "conffiles"]) == "/etc/kafkad/server.properties\n"
    assert field(debs["older"], "Version") == OLDER


def test_every_option_of_the_conffile_is_commented(extracted: Path) -> None:
    lines = (extracted / "etc/kafkad/server.properties").read_text().splitlines()
    assert [line for line in lines if line and not line.startswith("#")] == []
    assert "#listeners=PLAINTEXT://:9092" in lines
    assert (CHECKOUT / "etc/server.properties").read_text() in "\n".join(lines) + "\n"


def test_compiled_libraries_load(extracted: Path) -> None:
    packages = extracted / "usr/lib/kafkad/lib/python3.11/site-packages"
    found = f"import sys; sys.path.insert(0, {str(packages)!r})"
    names = "cramjam, crc32c, lz4.frame, msgspec, numpy, re2, xxhash, zmq, zstandard"
    load = f"import {names}; assert {str(packages)!r} in numpy.__file__"
    call(["/usr/bin/python3.11", "-I", "-c", f"{found}; {load}"])


def test_manual_pages_and_completion_are_there(extracted: Path, installed_tree: Path) -> None:
    pages = {page.name for page in (extracted / "usr/share/man").glob("man?/*")}
    assert {"kafkad.1.gz", "kafkad-plugins-install.1.gz", "kafkad-export-run.1.gz", "kafkad.properties.5.gz"} <= pages
    assert "complete " in (extracted / "usr/share/bash-completion/completions/kafkad").read_text()
    words = "COMP_WORDS='kafkad top' COMP_CWORD=1 _KAFKAD_COMPLETE=bash_complete kafkad"
    assert "plain,topics" in run_in_tree(installed_tree, words).splitlines()
