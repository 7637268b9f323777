import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkad.core.controller.topics.names import CollisionIndex, check_topic_name
from kafkad.core.errors import ErrorCode, KafkaError


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("a" * 250, f"the length of '{'a' * 250}' is longer than the max allowed length 249"),
        ("a b", "'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("ä", "'ä' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("a\n", "'a\n' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("a/b", "'a/b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
    ],
)
def test_illegal_names_get_kafkas_reason(name: str, reason: str) -> None:
    with pytest.raises(KafkaError) as refused:
        check_topic_name(name)
    assert refused.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert refused.value.message == f"Topic name is invalid: {reason}"


@pytest.mark.parametrize("name", ["a", "...", "A-b_c.9", "a" * 249, "-", "__consumer_offsets"])
def test_legal_names_pass(name: str) -> None:
    check_topic_name(name)


@given(st.lists(st.tuples(st.booleans(), st.text("a._-", min_size=1, max_size=3))))
def test_collisions_are_those_that_comparing_all_names_finds(steps: list[tuple[bool, str]]) -> None:
    index = CollisionIndex()
    names: set[str] = set()
    for add, name in steps:
        colliding = {other for other in names if other.replace(".", "_") == name.replace(".", "_")}
        try:
            index.check(name)
            assert not (colliding and ("." in name or "_" in name))
        except KafkaError as error:
            assert error.message == f"Topic '{name}' collides with existing topic: {min(colliding)}"
        if add:
            index.add(name)
            names.add(name)
        else:
            index.remove(name)
            names.discard(name)
