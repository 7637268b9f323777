"""The copy of the coordination store: when it is written, and how a lost store is restored from it."""

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from uuid import UUID

import pytest

from kafkad.adapters.files.log_directory import LogDirectoryUnusable
from kafkad.adapters.stores import store_copy
from kafkad.adapters.stores.embedded_store import FILE_NAME, EmbeddedStore
from kafkad.adapters.stores.store_copy import COPY_NAME, write_copy
from kafkad.core.controller.producer_ids import ProducerIdControlManager
from kafkad.core.controller.startup.term import Term
from kafkad.core.controller.store import nodes
from kafkad.core.controller.store.tree import MetadataTree
from kafkad.core.coordination_store import Check, CoordinationStore
from kafkad.core.log.segments.layout import LEADER_EPOCHS
from kafkad.core.ports import NoSpaceLeft, StorageFailed
from kafkad.processes.controller.store.store_copies import COPY_AFTER_MS, StoreCopies
from tests.processes.controller.opened import make, started
from tests.simulation.ports import AtOnce


class _Copies:
    """Those of an open store, whose thread is the test."""

    def __init__(self, folder: Path) -> None:
        self.store = EmbeddedStore(folder / FILE_NAME, 1)
        self.copies = StoreCopies(self, folder)

    def read(self, work: Callable[[CoordinationStore], None], done: Callable[[Future[None]], None]) -> None:
        done(AtOnce(1, "store").submit(work, self.store))


def test_changes_are_copied_together_and_nothing_is_written_without_any(tmp_path: Path) -> None:
    scene = _Copies(tmp_path)
    store, copies = scene.store, scene.copies
    copies.tick(0)
    assert copies.next_deadline_ms == COPY_AFTER_MS
    store.create("/a")
    copies.tick(COPY_AFTER_MS - 1)
    assert not (tmp_path / COPY_NAME).exists()
    copies.tick(COPY_AFTER_MS)
    written = (tmp_path / COPY_NAME).read_bytes()
    assert b"/a" in written
    (tmp_path / COPY_NAME).unlink()
    for now_ms in (COPY_AFTER_MS + 1, 10 * COPY_AFTER_MS):
        copies.tick(now_ms)
        assert copies.next_deadline_ms is None
    assert not (tmp_path / COPY_NAME).exists()
    store.create("/b")
    copies.tick(10 * COPY_AFTER_MS)
    assert copies.next_deadline_ms == 11 * COPY_AFTER_MS
    store.close()


@pytest.mark.parametrize("error", [NoSpaceLeft("told to be full"), StorageFailed("told to fail")])
def test_a_copy_that_can_not_be_written_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: StorageFailed
) -> None:
    scene = _Copies(tmp_path)
    scene.copies.tick(0)
    scene.copies.tick(COPY_AFTER_MS)
    before = (tmp_path / COPY_NAME).read_bytes()

    def fail(path: str, content: bytes) -> None:
        raise error

    monkeypatch.setattr(store_copy, "write_in_log_directory", fail)
    scene.store.create("/a")
    scene.copies.tick(COPY_AFTER_MS)
    scene.copies.tick(2 * COPY_AFTER_MS)
    assert (tmp_path / COPY_NAME).read_bytes() == before
    is_full = isinstance(error, NoSpaceLeft)
    assert scene.copies.failure == (None if is_full else str(error))
    assert any("keeping the old one" in record.getMessage() for record in caplog.records) == is_full
    scene.store.close()


CONFIG = {"cleanup.policy": "compact"}


def _broker_with_a_topic(folder: Path, *, copies: bool = True) -> None:
    """Topic `a` has a partition in the first log directory, and a configuration of its own."""
    make(folder / "one" / "a-0")
    with started(folder) as opened:
        tree = MetadataTree(opened.store, _term(opened.store.get(nodes.CONTROLLER_EPOCH).stat.version))
        tree.set_config(nodes.topic_config_path("a"), "topics/a", CONFIG)
        if copies:
            assert isinstance(opened.store, EmbeddedStore)
            write_copy(opened.store, folder / "one")
        # Later than the copy.
        ProducerIdControlManager(opened.store, 1).allocate_block()


def _term(version: int) -> Term:
    return Term(0, Check(nodes.CONTROLLER_EPOCH, version))


def _lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if FILE_NAME in record.getMessage()]


@pytest.mark.parametrize("is_empty", [True, False], ids=["empty", "missing"])
def test_topics_have_the_configurations_of_the_copy(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, is_empty: bool
) -> None:
    _broker_with_a_topic(tmp_path)
    before = tmp_path / "one" / "a-0" / LEADER_EPOCHS
    before.write_text("0\n1\n41 0\n")
    with started(tmp_path) as opened:
        last = ProducerIdControlManager(opened.store, 1).allocate_block().stop
    (tmp_path / "one" / FILE_NAME).unlink()
    if is_empty:
        (tmp_path / "one" / FILE_NAME).touch()
    make(tmp_path / "two" / "b-0", 8)
    caplog.clear()
    with started(tmp_path) as opened:
        topics = opened.hosting.image.topics
        assert topics["a"].configs == CONFIG
        assert topics["a"].id == UUID(int=7)
        assert topics["a"].partitions[0].leader_epoch == 42
        assert topics["b"].configs["retention.ms"] == "-1"
        assert ProducerIdControlManager(opened.store, 1).allocate_block().start >= last
    (line,) = _lines(caplog)
    assert f"was {'empty' if is_empty else 'missing'} and is restored from its copy of 20" in line
    caplog.clear()
    with started(tmp_path) as opened:
        assert opened.hosting.image.topics["a"].configs == CONFIG
    assert not _lines(caplog)


def test_without_a_copy_a_line_says_what_is_lost(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    _broker_with_a_topic(tmp_path, copies=False)
    (tmp_path / "one" / FILE_NAME).write_bytes(b"")
    with started(tmp_path) as opened:
        assert opened.hosting.image.topics["a"].configs["retention.ms"] == "-1"
    (line,) = _lines(caplog)
    assert "is empty, and there is no" in line and "configurations" in line


def test_a_damaged_copy_is_named_and_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    _broker_with_a_topic(tmp_path)
    (tmp_path / "one" / FILE_NAME).unlink()
    (tmp_path / "one" / COPY_NAME).write_bytes(b"no database" * 500)
    with started(tmp_path) as opened:
        assert opened.hosting.image.topics["a"].configs["retention.ms"] == "-1"
    (line,) = _lines(caplog)
    assert "its copy can't be read" in line


def test_a_start_that_was_killed_at_once_has_lost_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / FILE_NAME).touch()
    with started(tmp_path):
        pass
    assert not _lines(caplog)


def test_data_of_apache_kafka_has_lost_no_store(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    make(tmp_path / "one" / "a-0")
    with started(tmp_path):
        pass
    assert not _lines(caplog)


def test_a_store_in_another_log_directory_is_not_left_aside(tmp_path: Path) -> None:
    """Somebody has named a new directory first."""
    _broker_with_a_topic(tmp_path)
    (tmp_path / "one").rename(tmp_path / "three")
    (tmp_path / "two").rename(tmp_path / "one")
    (tmp_path / "three").rename(tmp_path / "two")
    with pytest.raises(LogDirectoryUnusable, match="name it first"), started(tmp_path):
        pass


def test_a_damaged_store_is_refused_and_the_copy_named(tmp_path: Path) -> None:
    _broker_with_a_topic(tmp_path)
    (tmp_path / "one" / FILE_NAME).write_bytes(b"no database" * 500)
    with pytest.raises(StorageFailed, match=COPY_NAME), started(tmp_path):
        pass
