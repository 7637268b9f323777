"""Which policies are not asked for a while, about a partition or at all, as they have not returned before?"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple
from uuid import UUID

from kafkad.core.cleaning.quarantine import Quarantine

MOST_IN_A_ROW = 3
"""After so many calls that did not return, the fault is with the policy and not with a partition."""


class Question(NamedTuple):
    """A policy that is asked about a partition."""

    topic_id: UUID
    partition: int
    policy: str


class SlowPolicies:
    """`now_ms` is the monotonic clock."""

    def __init__(self) -> None:
        self._questions: Quarantine[Question] = Quarantine()
        self._policies: Quarantine[str] = Quarantine()
        self._in_a_row: Counter[str] = Counter()

    def __iter__(self) -> Iterator[Question]:
        return iter(self._questions)

    def not_before_ms(self, question: Question) -> int:
        """When it may be asked; in the past if nothing speaks against it."""
        return max(self._policies.until_ms(question.policy) or 0, self._questions.until_ms(question) or 0)

    def returned(self, question: Question) -> None:
        if self._in_a_row.pop(question.policy, 0):
            self._policies.release(lambda policy: policy == question.policy)
        if len(self._questions):
            self._questions.release(lambda other: other == question)

    def did_not_return(self, question: Question, now_ms: int) -> int:
        """Returns the milliseconds until it may be asked this again."""
        self._in_a_row[question.policy] += 1
        return self._questions.failed(question, now_ms)

    def leave_alone(self, policy: str, now_ms: int) -> int | None:
        """If it has not returned again and again: the milliseconds until it may be asked anything."""
        if self._in_a_row[policy] < MOST_IN_A_ROW:
            return None
        return self._policies.failed(policy, now_ms)

    def release(self, is_meant: Callable[[UUID], bool]) -> None:
        """The configuration of these topics has changed."""
        self._questions.release(lambda question: is_meant(question.topic_id))
        self._policies.release(lambda _: True)
