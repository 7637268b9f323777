from dataclasses import replace

from kafkad.core.cleanup import DeleteSegments, RewriteSegments
from kafkad.core.log.settings import LogConfig
from kafkad.plugins.compaction import Compaction
from kafkad.testing import log_summary

CONFIG = LogConfig(cleanup_policy=frozenset({"compact"}))


def test_the_dirty_part_of_a_log_is_rewritten_and_the_dirtiest_log_first() -> None:
    log = replace(log_summary(0, 10, 20, 30, 40), cleanable_end=45, cleaned_offset=10)
    (effect,) = Compaction().plan(log, CONFIG, 0)
    assert isinstance(effect, RewriteSegments)
    assert (effect.first_dirty_offset, effect.first_uncleanable_offset, effect.urgency) == (10, 40, 0.75)


def test_a_clean_log_is_left_alone() -> None:
    log = replace(log_summary(0, 10, 20), cleanable_end=25, cleaned_offset=20)
    assert Compaction().plan(log, CONFIG, 0) == []


def test_segments_below_the_log_start_are_deleted() -> None:
    log = replace(log_summary(0, 10, 20, 30), log_start_offset=25, cleanable_end=35)
    (effect,) = Compaction().plan(log, CONFIG, 0)
    assert isinstance(effect, DeleteSegments)
    assert effect.up_to_base_offset == 10
