"""Tables in an object store: moto's S3 on loopback."""

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest

from kafkad.core.log.recovery.checkpoints import HIGH_WATERMARKS
from kafkad.export.places import TableFolder
from kafkad.export.preparation import prepare
from kafkad.export.run import carry_out, remove_orphans
from kafkad.export.tables import open_sink
from kafkad.export.task import run_task
from kafkad.export.wanted import Wanted
from tests.export.reading.test_log_directories import checkpoint, partition, plain


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a folder in a new bucket."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    # A process of its own: deltalake holds Python's lock while it asks.
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _await(port)
        yield from _bucket(port, monkeypatch)
    finally:
        server.terminate()
        server.wait()


def _await(port: int) -> None:
    deadline_s = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            assert time.monotonic() < deadline_s, "moto does not listen"
            threading.Event().wait(0.05)
        else:
            return


def _bucket(port: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
        "AWS_EC2_METADATA_DISABLED": "true",
        "NO_PROXY": "127.0.0.1",
    }.items():
        monkeypatch.setenv(name, value)
    files = pa.fs.S3FileSystem(
        endpoint_override=f"127.0.0.1:{port}", scheme="http", region="us-east-1", allow_bucket_creation=True
    )
    files.create_dir("lake")
    yield "s3a://lake/orders"


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_two_runs_bring_each_record_once(kind: str, bucket: str, tmp_path: Path) -> None:
    partition(tmp_path / "log", "t-0", *map(plain, range(9)))
    wanted = Wanted(
        topic="t",
        out=bucket,
        name="t",
        bootstrap="",
        source="files",
        log_dirs=(str(tmp_path / "log"),),
        format=kind,
        catalog=f"sqlite:///{tmp_path}/catalog.db",
    )
    for end in (4, 9):
        checkpoint(tmp_path / "log", HIGH_WATERMARKS, p0=end)
        sink = open_sink(wanted)
        prepared = prepare(wanted, sink)
        carry_out(prepared, sink, lambda tasks: (file for task in tasks for file in run_task(task)), lambda _: None)
        assert open_sink(wanted).state([0]).offsets == {0: end}
    folder = TableFolder(bucket)
    tables = [pq.read_table(pa.BufferReader(folder.read(path))) for path in open_sink(wanted).files()]
    assert sorted(pa.concat_tables(tables).column("offset").to_pylist()) == list(range(9))
    with folder.create("t-0-orphan.parquet") as file:
        file.write(b"left over")
    assert remove_orphans(folder, open_sink(wanted), 0) == ["t-0-orphan.parquet"]
