"""Deletions that a broker refused are asked for again, whether leaders are balanced or not."""

from kafkad.processes.controller.cluster.requests.deletion_retries import RETRY_MS, DeletionRetries


def test_refused_deletions_are_asked_for_again_in_a_minute() -> None:
    asked: list[int] = []
    deletions = DeletionRetries(lambda: asked.append(1))
    deletions.tick(False, 0)
    assert deletions.next_deadline_ms is None, "nobody wakes for nothing"
    deletions.tick(True, 5)
    assert deletions.next_deadline_ms == 5 + RETRY_MS
    deletions.tick(True, 4 + RETRY_MS)
    assert asked == []
    deletions.tick(True, 5 + RETRY_MS)
    assert (asked, deletions.next_deadline_ms) == ([1], None)
    deletions.tick(True, 6 + RETRY_MS)
    assert deletions.next_deadline_ms == 6 + 2 * RETRY_MS
    deletions.tick(False, 7 + RETRY_MS)
    assert deletions.next_deadline_ms is None
