"""Apicurio Registry, a real schema registry with Confluent's HTTP interface, and its own serializers.

They come from Maven, once, into `build/apicurio` of the checkout; KAFKAD_APICURIO names another folder of the registry.
"""

import fcntl
import os
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from threading import Event

from bench.brokers.ports import free_port

VERSION = "2.6.13.Final"
_ARTIFACT = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
_SERIALIZERS = ("avro", "jsonschema", "protobuf")
_DEPENDENCIES = "".join(
    f"<dependency><groupId>io.apicurio</groupId><artifactId>apicurio-registry-serdes-{kind}-serde</artifactId>"
    f"<version>{VERSION}</version></dependency>"
    for kind in _SERIALIZERS
)
_PROJECT = (
    "<project><modelVersion>4.0.0</modelVersion><groupId>serializers</groupId><artifactId>serializers</artifactId>"
    f"<version>1</version><dependencies>{_DEPENDENCIES}</dependencies></project>"
)
_CHECKOUT = Path(__file__).parents[2]
_RESOLVE_TIMEOUT_S = 600
_START_TIMEOUT_S = 180
_PATH = "/apis/ccompat/v7"


def apicurio_folder() -> Path:
    """The folder with its jars, resolved at the first call on a machine."""
    named = os.environ.get("KAFKAD_APICURIO")
    return Path(named) if named else _resolved(VERSION, _resolve_registry)


def serializer_jars() -> str:
    """The class path of its serializers."""
    return f"{_resolved(f'serializers-{VERSION}', _resolve_serializers)}/*"


def _resolved(name: str, resolve: Callable[[Path], None]) -> Path:
    folder = _CHECKOUT / "build" / "apicurio" / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.parent / "resolve.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            resolve(folder)
    return folder


def _maven(goal: str, *options: str) -> None:
    command = ["mvn", "-q", "-B", goal, *options]
    subprocess.run(command, check=True, timeout=_RESOLVE_TIMEOUT_S, stdin=subprocess.DEVNULL)


def _resolve_serializers(folder: Path) -> None:
    partial = folder.with_name("partial")
    project = folder.with_name("serializers.xml")
    project.write_text(_PROJECT)
    _maven("dependency:copy-dependencies", f"-f{project}", f"-DoutputDirectory={partial}", "-DincludeScope=runtime")
    partial.rename(folder)


def _resolve_registry(folder: Path) -> None:
    archives, partial = folder.with_name("archives"), folder.with_name("partial")
    _maven("dependency:copy", f"-Dartifact={_ARTIFACT}", f"-DoutputDirectory={archives}")
    (archive,) = archives.glob("*.tar.gz")
    with tarfile.open(archive) as content:
        content.extractall(partial)
    partial.rename(folder)
    archive.unlink()


@contextmanager
def apicurio(folder: Path) -> Iterator[str]:
    """The address of Confluent's interface; what it knows is in memory. `folder` gets what it prints."""
    port, management = free_port(), free_port()
    command = [
        *("java", "-Xmx256M", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
        *("-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={port}"),
        *("-Dquarkus.management.host=127.0.0.1", f"-Dquarkus.management.port={management}"),
        *("-jar", str(apicurio_folder() / f"apicurio-registry-app-{VERSION}-runner.jar")),
    ]
    printed = folder / "apicurio.log"
    with printed.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=folder)
    try:
        _await(port, process, printed)
        yield f"http://127.0.0.1:{port}{_PATH}"
    finally:
        process.terminate()
        process.wait()


def _await(port: int, process: subprocess.Popen[bytes], printed: Path) -> None:
    deadline_s = time.monotonic() + _START_TIMEOUT_S
    while not _answers(port):
        said = printed.read_text(errors="replace")[-2_000:]
        assert process.poll() is None, f"Apicurio has ended: {said}"
        assert time.monotonic() < deadline_s, f"Apicurio does not answer: {said}"
        Event().wait(0.2)


def _answers(port: int) -> bool:
    asking = HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        asking.request("GET", f"{_PATH}/subjects")
        return asking.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        asking.close()
