"""The page /cleaner: whose answers does it show, and how does one know that they are new?"""

import json
from typing import Any
from uuid import UUID

from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.core.controller.image import MetadataImage
from kafkad.processes.runtime.compaction_page import CompactionPage
from kafkad.wire.processes.cleaning_messages import CompactionFigures, CompactionRow, Compactions, CompactionsRequest
from kafkad.wire.processes.descriptors import pack_control, unpack_control

FIRST, SECOND = ProcessKey("cleaner", 0), ProcessKey("cleaner", 1)
IMAGE = MetadataImage(names_by_id={UUID(int=1): "orders", UUID(int=2): "users"})
FIGURES = CompactionFigures(5, 0.5, 100, 10, 5, 1000, 500)


class Cleaners:
    """Those that can be reached, and the page about them."""

    def __init__(self) -> None:
        self.reached = {FIRST, SECOND}
        self.asked: dict[ProcessKey, int] = {}
        self.page = CompactionPage((FIRST, SECOND), self)

    def send(self, cleaner: ProcessKey, frame: bytes, *, wakes: bool = True) -> bool:
        message = unpack_control(frame)
        assert isinstance(message, CompactionsRequest)
        self.asked[cleaner] = message.number
        return cleaner in self.reached

    def answer(self, cleaner: ProcessKey, *rows: CompactionRow) -> None:
        answer = unpack_control(pack_control(Compactions(self.asked[cleaner], list(rows))))
        assert isinstance(answer, Compactions)
        self.page.update(cleaner, answer)

    def content(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self.page.render(IMAGE).body)
        return content


def row(topic: int, partition: int = 0, failure: str = "") -> CompactionRow:
    return CompactionRow(UUID(int=topic).bytes, partition, "idle", 0.25, 7, FIGURES, failure, 9 if failure else 0)


def test_the_logs_of_all_cleaners_are_shown_in_order() -> None:
    cleaners = Cleaners()
    cleaners.content()
    cleaners.answer(FIRST, row(2), row(1, 1, "damaged"))
    cleaners.answer(SECOND, row(1))
    shown = cleaners.content()["partitions"]
    assert [(each["topic"], each["partition"], each["failure"], each["retry_ms"]) for each in shown] == [
        ("orders", 0, None, None),
        ("orders", 1, "damaged", 9),
        ("users", 0, None, None),
    ]
    assert shown[0]["last"]["cleaned_offset"] == 100


def test_a_page_says_whether_all_have_answered() -> None:
    cleaners = Cleaners()
    first = cleaners.content()
    assert first["answered"] < first["asked"]
    cleaners.answer(FIRST)
    assert cleaners.content()["answered"] < first["asked"]
    cleaners.answer(FIRST)
    cleaners.answer(SECOND)
    assert cleaners.content()["answered"] >= first["asked"]


def test_nobody_waits_for_a_cleaner_that_has_died() -> None:
    cleaners = Cleaners()
    first = cleaners.content()
    cleaners.answer(FIRST, row(1))
    cleaners.answer(SECOND, row(2))
    cleaners.reached.remove(SECOND)
    cleaners.page.forget(SECOND)
    page = cleaners.content()
    assert page["answered"] >= first["asked"]
    assert [each["topic"] for each in page["partitions"]] == ["orders"]


def test_a_topic_that_was_deleted_is_not_shown() -> None:
    cleaners = Cleaners()
    cleaners.content()
    cleaners.answer(FIRST, row(3), row(1))
    assert [each["topic"] for each in cleaners.content()["partitions"]] == ["orders"]
