"""Credentials for an object store that expire, or are withdrawn, before some request of an export: one line, and the
next run goes on with nothing lost or doubled.

Each request of a run is tried, or each `lost_credentials_step`th.
"""

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from bench.brokers.processes import WITHIN_S
from kafkad.cli import main
from kafkad.core.log.recovery.checkpoints import HIGH_WATERMARKS
from kafkad_lakehouse.export.request import ExportRequest
from kafkad_lakehouse.export.table_folder import TableFolder
from kafkad_lakehouse.export.tables import open_sink
from tests.amounts import amount
from tests.lakehouse.export.object_store import (
    BUCKET,
    EXPIRED,
    WITHDRAWN,
    Credentials,
    Rejection,
    asking_for,
    object_store,
    use,
)
from tests.lakehouse.export.reading.test_log_directories import checkpoint, partition, plain

STEP = amount("lost_credentials_step")
FOR_EVER = 1_000_000
ENDS = (4, 9)


class Said(NamedTuple):
    code: int
    stderr: str
    raised: str
    """Anything but the end of the command: it would be a stack trace."""


def run_command(*arguments: str) -> Said:
    done = CliRunner().invoke(main, ["export", *arguments])
    raised = "" if done.exception is None or isinstance(done.exception, SystemExit) else repr(done.exception)
    return Said(done.exit_code, done.stderr, raised)


def offsets_of(asked: ExportRequest) -> list[tuple[int, int]]:
    folder = TableFolder(asked.out)
    found: list[tuple[int, int]] = []
    for path in open_sink(asked).files():
        rows = pq.read_table(pa.BufferReader(folder.read(path)), columns=["partition", "offset"])
        found += zip(rows.column("partition").to_pylist(), rows.column("offset").to_pylist(), strict=True)
    return sorted(found)


class Store:
    """Exports into it run in a process of their own, as deltalake holds Python's lock while it asks."""

    def __init__(self, folder: Path, credentials: Credentials, elsewhere: ProcessPoolExecutor) -> None:
        self._folder = folder
        self._elsewhere = elsewhere
        self.credentials = credentials
        for number in range(2):
            partition(folder / "log", f"t-{number}", *map(plain, range(ENDS[-1])))

    def wanted(self, kind: str, name: str) -> ExportRequest:
        return ExportRequest(
            topic="t",
            out=f"s3://{BUCKET}/{name}",
            name="t",
            bootstrap="",
            format=kind,
            catalog=f"sqlite:///{self._folder}/catalog.db" if kind == "iceberg" else "",
            table=f"kafkad.{name}",
        )

    def command(self, verb: str, asked: ExportRequest, *options: str) -> Said:
        command = [verb, "--topic", "t", "--out", asked.out, "--format", asked.format, "--bootstrap-server", "none"]
        command += ["--source", "files", "--log-dirs", str(self._folder / "log"), *options]
        if asked.catalog:
            command += ["--catalog", asked.catalog, "--table", asked.table]
        return self._elsewhere.submit(run_command, *command).result(WITHIN_S)

    def log_ends_at(self, end: int) -> None:
        checkpoint(self._folder / "log", HIGH_WATERMARKS, p0=end, p1=end)

    def offsets(self, asked: ExportRequest) -> list[tuple[int, int]]:
        return self._elsewhere.submit(offsets_of, asked).result(WITHIN_S)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with object_store() as port:
        yield port


@pytest.fixture
def store(port: int, tmp_path: Path) -> Iterator[Store]:
    credentials = Credentials()
    spawn = multiprocessing.get_context("spawn")
    with (
        asking_for(credentials, port) as guarded,
        ProcessPoolExecutor(1, mp_context=spawn, initializer=use, initargs=(guarded,)) as elsewhere,
    ):
        yield Store(tmp_path, credentials, elsewhere)


def is_one_line(said: Said) -> bool:
    return not said.raised and (said.code, said.stderr.count("\n")) == (1, 1) and said.stderr.startswith("kafkad: ")


@pytest.mark.timeout(900 + 60_000 // STEP)
@pytest.mark.parametrize(("refusal", "lost_for"), [(EXPIRED, FOR_EVER), (WITHDRAWN, 1)])
@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
def test_an_export_whose_credentials_are_lost_at_any_request_is_one_line_and_is_repeated(
    store: Store, kind: str, refusal: Rejection, lost_for: int, capfd: pytest.CaptureFixture[str]
) -> None:
    good_for, reached, wrong = 0, True, []
    while reached:
        asked = store.wanted(kind, f"{kind}_{refusal.code}_{good_for}")
        reached = False
        for end in ENDS:
            store.log_ends_at(end)
            store.credentials.lose(good_for, lost_for, refusal)
            said = store.command("run", asked)
            was_refused = store.credentials.asked > good_for
            reached = reached or was_refused
            if not is_one_line(said) and (said.code != 0 or (was_refused and lost_for == FOR_EVER)):
                wrong.append((good_for, end, said))
            store.credentials.good_again()
            assert store.command("run", asked).code == 0
            assert store.offsets(asked) == [(number, offset) for number in range(2) for offset in range(end)]
        good_for += STEP
    assert not wrong
    assert good_for > STEP
    # Nor does a library print anything by itself.
    assert capfd.readouterr().err == ""


@pytest.mark.timeout(900 + 60_000 // STEP)
@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
@pytest.mark.parametrize("verb", ["files", "maintain"])
def test_a_command_that_reads_a_table_says_that_its_credentials_are_lost(
    store: Store, kind: str, verb: str, capfd: pytest.CaptureFixture[str]
) -> None:
    good_for, reached, wrong = 0, True, []
    while reached:
        asked = store.wanted(kind, f"{kind}_{verb}_{good_for}")
        for end in ENDS:
            store.log_ends_at(end)
            assert store.command("run", asked).code == 0
        store.credentials.lose(good_for, FOR_EVER, EXPIRED)
        said = store.command(verb, asked)
        reached = store.credentials.asked > good_for
        if reached and not is_one_line(said):
            wrong.append((good_for, said))
        store.credentials.good_again()
        assert store.command("run", asked).code == 0
        assert store.offsets(asked) == [(number, offset) for number in range(2) for offset in range(ENDS[-1])]
        good_for += STEP
    assert said.code == 0 and good_for > STEP and not wrong
    assert capfd.readouterr().err == ""
