"""Network processes and owners without the rule for replies that are leaving: a reader gets records of two leaders."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kafkad.adapters.shared_memory.partition_table import PartitionTable
from kafkad.processes.network.logs.page_cache_prefetch import PageCachePrefetch
from tests.processes.fetcher.slow_reader import reply_across_a_truncation
from tests.processes.fetcher.two_brokers import TwoBrokers

pytestmark = pytest.mark.interpreted

Patch = pytest.MonkeyPatch


def _replies_go_on(patch: Patch) -> None:
    patch.setattr(PageCachePrefetch, "check", lambda _self, _piece: None)


def _owners_do_not_say_so(patch: Patch) -> None:
    patch.setattr(PartitionTable, "mark_truncation", lambda _self, _slot, _generation: None)


@pytest.mark.parametrize("mutate", [_replies_go_on, _owners_do_not_say_so])
def test_a_reply_from_before_a_truncation_that_goes_on_is_found_out(
    mutate: Callable[[Patch], None], monkeypatch: Patch, tmp_path: Path
) -> None:
    mutate(monkeypatch)
    brokers = TwoBrokers(tmp_path)
    try:
        before, got = reply_across_a_truncation(brokers)
    finally:
        brokers.close()
    records = got[got.index(before[:60]) :]
    assert len(got) >= len(before), "it came to its end"
    assert records != before[: len(records)], "with records that it was not made of"
