"""A start goes on from the copy of a coordination store that is lost, or finds everything as it was."""

from pathlib import Path
from random import Random

import pytest

from kafkad.adapters.stores.embedded_store import FILE_NAME, EmbeddedStore
from kafkad.adapters.stores.store_copy import COPY_NAME, is_lost, restore, write_copy
from kafkad.core.ports import StorageFailed


def _with_copy(folder: Path) -> EmbeddedStore:
    store = EmbeddedStore(folder / FILE_NAME, 1)
    store.create("/a", b"copied")
    write_copy(store, folder)
    return store


def test_a_store_that_was_removed_is_restored_with_what_the_write_ahead_log_had(tmp_path: Path) -> None:
    store = _with_copy(tmp_path)
    store.create("/b", b"later")
    store.close()
    (tmp_path / FILE_NAME).unlink()
    assert is_lost(tmp_path)

    def adjust(restored: EmbeddedStore) -> None:
        restored.set_data("/a", b"adjusted")

    restore(tmp_path, 2, adjust)
    assert not is_lost(tmp_path)
    again = EmbeddedStore(tmp_path / FILE_NAME, 2)
    assert (again.get("/a").data, again.exists("/b")) == (b"adjusted", None)
    again.close()


def test_what_a_lost_store_has_left_beside_it_is_not_taken_for_changes_of_the_copy(tmp_path: Path) -> None:
    store = _with_copy(tmp_path)
    store.create("/b", b"later")
    left = (tmp_path / f"{FILE_NAME}-wal").read_bytes()
    store.close()
    (tmp_path / FILE_NAME).write_bytes(b"")
    (tmp_path / f"{FILE_NAME}-wal").write_bytes(left)
    restore(tmp_path, 2, lambda _: None)
    again = EmbeddedStore(tmp_path / FILE_NAME, 2)
    assert again.exists("/b") is None
    again.close()


def test_a_copy_that_is_missing_empty_or_damaged_restores_nothing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        restore(tmp_path, 1, lambda _: None)
    for content in (b"", b"no database" * 500):
        (tmp_path / COPY_NAME).write_bytes(content)
        with pytest.raises(StorageFailed):
            restore(tmp_path, 1, lambda _: None)
        assert is_lost(tmp_path)


def test_a_damaged_store_is_named_in_one_line_whatever_is_damaged(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path / FILE_NAME, 1)
    for number in range(200):
        store.create(f"/{number}", b"x" * 100)
    store.close()
    whole = (tmp_path / FILE_NAME).read_bytes()
    refused = 0
    for seed in range(60):
        content = bytearray(whole)
        at = Random(seed).randrange(len(content) - 64)
        content[at : at + 64] = Random(seed).randbytes(64)
        (tmp_path / FILE_NAME).write_bytes(content)
        try:
            store = EmbeddedStore(tmp_path / FILE_NAME, 2)
            for name in store.children("/"):
                store.exists(f"/{name}")
            store.close()
        except StorageFailed as failure:
            assert "\n" not in str(failure)
            refused += 1
    assert refused > 3
