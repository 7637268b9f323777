"""When the copy of the coordination store is written."""

from pathlib import Path

import pytest

from kafkad.adapters.stores import store_copy
from kafkad.adapters.stores.embedded_store import FILE_NAME, EmbeddedStore
from kafkad.adapters.stores.store_copy import COPY_NAME
from kafkad.core.ports import NoSpaceLeft, StorageFailed
from kafkad.processes.controller.store.copies import COPY_AFTER_MS, StoreCopies


def _copies(folder: Path, failures: list[str]) -> tuple[EmbeddedStore, StoreCopies]:
    store = EmbeddedStore(folder / FILE_NAME, 1)
    return store, StoreCopies(store, folder, failures.append)


def test_changes_are_copied_together_and_nothing_is_written_without_any(tmp_path: Path) -> None:
    store, copies = _copies(tmp_path, [])
    copies.write_due(0)
    assert copies.next_deadline_ms == COPY_AFTER_MS
    store.create("/a")
    copies.write_due(COPY_AFTER_MS - 1)
    assert not (tmp_path / COPY_NAME).exists()
    copies.write_due(COPY_AFTER_MS)
    written = (tmp_path / COPY_NAME).read_bytes()
    assert b"/a" in written
    (tmp_path / COPY_NAME).unlink()
    for now_ms in (COPY_AFTER_MS + 1, 10 * COPY_AFTER_MS):
        copies.write_due(now_ms)
        assert copies.next_deadline_ms is None
    assert not (tmp_path / COPY_NAME).exists()
    store.create("/b")
    copies.write_due(10 * COPY_AFTER_MS)
    assert copies.next_deadline_ms == 11 * COPY_AFTER_MS
    store.close()


@pytest.mark.parametrize("error", [NoSpaceLeft("told to be full"), StorageFailed("told to fail")])
def test_a_copy_that_can_not_be_written_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: StorageFailed
) -> None:
    failures: list[str] = []
    store, copies = _copies(tmp_path, failures)
    copies.write()
    before = (tmp_path / COPY_NAME).read_bytes()

    def fail(path: str, content: bytes) -> None:
        raise error

    monkeypatch.setattr(store_copy, "write_in_log_directory", fail)
    store.create("/a")
    copies.write()
    assert (tmp_path / COPY_NAME).read_bytes() == before
    is_full = isinstance(error, NoSpaceLeft)
    assert failures == ([] if is_full else [str(error)])
    assert any("keeping the old one" in record.getMessage() for record in caplog.records) == is_full
    store.close()
