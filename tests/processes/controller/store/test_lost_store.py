"""The coordination store is lost: topics keep their configurations from its copy, or a line says that they do not."""

from pathlib import Path
from uuid import UUID

import pytest

from kafkad.adapters.files.log_directory import LogDirectoryUnusable
from kafkad.adapters.stores.embedded_store import FILE_NAME
from kafkad.adapters.stores.store_copy import COPY_NAME, write_copy
from kafkad.core.controller.producer_ids import ProducerIdControlManager
from kafkad.core.controller.startup.term import Term
from kafkad.core.controller.store import nodes
from kafkad.core.controller.store.tree import MetadataTree
from kafkad.core.coordination_store import Check
from kafkad.core.log.segments.layout import LEADER_EPOCHS
from kafkad.core.ports import StorageFailed
from tests.processes.controller.opened import make, started

CONFIG = {"cleanup.policy": "compact"}


def _broker_with_a_topic(folder: Path, *, copies: bool = True) -> None:
    """Topic `a` has a partition in the first log directory, and a configuration of its own."""
    make(folder / "one" / "a-0")
    with started(folder) as opened:
        tree = MetadataTree(opened.store, _term(opened.store.get(nodes.CONTROLLER_EPOCH).stat.version))
        tree.set_config(nodes.topic_config_path("a"), "topics/a", CONFIG)
        if copies:
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
        topics = opened.controller.image.topics
        assert topics["a"].configs == CONFIG
        assert topics["a"].id == UUID(int=7)
        assert topics["a"].partitions[0].leader_epoch == 42
        assert topics["b"].configs["retention.ms"] == "-1"
        assert ProducerIdControlManager(opened.store, 1).allocate_block().start >= last
    (line,) = _lines(caplog)
    assert f"was {'empty' if is_empty else 'missing'} and is restored from its copy of 20" in line
    caplog.clear()
    with started(tmp_path) as opened:
        assert opened.controller.image.topics["a"].configs == CONFIG
    assert not _lines(caplog)


def test_without_a_copy_a_line_says_what_is_lost(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    _broker_with_a_topic(tmp_path, copies=False)
    (tmp_path / "one" / FILE_NAME).write_bytes(b"")
    with started(tmp_path) as opened:
        assert opened.controller.image.topics["a"].configs["retention.ms"] == "-1"
    (line,) = _lines(caplog)
    assert "is empty, and there is no" in line and "configurations" in line


def test_a_damaged_copy_is_named_and_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    _broker_with_a_topic(tmp_path)
    (tmp_path / "one" / FILE_NAME).unlink()
    (tmp_path / "one" / COPY_NAME).write_bytes(b"no database" * 500)
    with started(tmp_path) as opened:
        assert opened.controller.image.topics["a"].configs["retention.ms"] == "-1"
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
