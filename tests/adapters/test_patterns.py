"""Patterns of clients: RE2's rules, its reasons, and no way to make a match take long."""

from random import Random
from typing import Any

import pytest

from kafkad.adapters.patterns import MAX_PATTERN_LENGTH, compile_pattern


def test_the_whole_text_has_to_match() -> None:
    pattern = compile_pattern("ord.*|pay")
    assert pattern.fullmatch("orders")
    assert pattern.fullmatch("pay")
    assert pattern.fullmatch("payments") is None


def test_letters_of_all_languages_match() -> None:
    assert compile_pattern(r"\pL+-\d").fullmatch("größe-1")


@pytest.mark.parametrize("pattern", ["(", "a**", "[z-a]", r"\1", "(?=a)", "(?P<n"])
def test_what_is_no_pattern_is_refused_with_a_reason(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        compile_pattern(pattern)


def test_a_pattern_that_would_take_years_elsewhere_answers_at_once() -> None:
    assert compile_pattern("(a+)+$").fullmatch("a" * 50_000 + "b") is None


def test_groups_in_a_pattern_are_not_captured() -> None:
    """A name that matches thousands of groups would take seconds and gigabytes."""
    found: Any = compile_pattern("(o)(r.*)").fullmatch("orders")
    assert found.groups() == ()


def test_a_pattern_has_a_limited_length() -> None:
    assert compile_pattern("a?" * (MAX_PATTERN_LENGTH // 2)).fullmatch("a" * 249)
    with pytest.raises(ValueError, match="8193 characters"):
        compile_pattern("a" * (MAX_PATTERN_LENGTH + 1))


def test_a_pattern_that_takes_a_millisecond_for_each_name_matches_no_more() -> None:
    pattern = compile_pattern(".*a.{200}b")
    letters = Random(1)
    with pytest.raises(ValueError, match="too long"):
        for _ in range(20_000):
            pattern.fullmatch("".join(letters.choices("ab", k=249)))


@pytest.mark.parametrize("expression", [".*", "orders-.*", "|".join(f"orders-{number}.*" for number in range(300))])
def test_a_pattern_that_people_write_matches_very_many_names(expression: str) -> None:
    pattern = compile_pattern(expression)
    assert sum(pattern.fullmatch(f"orders-{number}") is not None for number in range(20_000)) > 300
