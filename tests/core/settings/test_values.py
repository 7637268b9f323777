"""Values as Kafka reads and prints them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkad.core.quoting import quoted
from kafkad.core.settings.limits import Between, EachOneOf, GzipLevel, NotEmpty, OneOf, ThrottledReplicas
from kafkad.core.settings.option import InvalidSetting, SettingType, Validator
from kafkad.core.settings.rows import BOOLEAN, CLASS, DOUBLE, INT, LIST, LONG, LOW, READ_ONLY, SHORT, STRING, row
from kafkad.core.settings.values import Value, value_text


def parse(setting_type: SettingType, text: str, limits: Validator | None = None) -> Value:
    return row("name", setting_type, None, limits, LOW, READ_ONLY, "").parse(text)


@pytest.mark.parametrize(
    ("setting_type", "text", "expected"),
    [
        (BOOLEAN, "TRUE", True),
        (BOOLEAN, " false\t", False),
        (INT, " +5 ", 5),
        (INT, "-2147483648", -(2**31)),
        (INT, "007", 7),
        (LONG, "9223372036854775807", 2**63 - 1),
        (SHORT, "32767", 32767),
        (DOUBLE, "1e-1", 0.1),
        (DOUBLE, ".5f", 0.5),
        (DOUBLE, "2.", 2.0),
        (STRING, " a b ", "a b"),
        (LIST, " a , b,c ", ("a", "b", "c")),
        (LIST, "", ()),
        (LIST, "a,,b", ("a", "", "b")),
        (CLASS, "org.example.Thing", "org.example.Thing"),
    ],
)
def test_text_becomes_the_value_that_kafka_reads(setting_type: SettingType, text: str, expected: Value) -> None:
    assert parse(setting_type, text) == expected


@pytest.mark.parametrize(
    ("setting_type", "text", "message"),
    [
        (BOOLEAN, "yes", "Expected value to be either true or false"),
        (BOOLEAN, "1", "Expected value to be either true or false"),
        (INT, "", "Not a number of type INT"),
        (INT, "1_000", "Not a number of type INT"),
        (INT, "0x10", "Not a number of type INT"),
        (INT, "1.5", "Not a number of type INT"),
        (INT, "2147483648", "Not a number of type INT"),
        (SHORT, "-32769", "Not a number of type SHORT"),
        (LONG, "9" * 50_000, "Not a number of type LONG"),
        (DOUBLE, "x", "Not a number of type DOUBLE"),
    ],
)
def test_wrong_text_is_refused_in_kafkas_words(setting_type: SettingType, text: str, message: str) -> None:
    with pytest.raises(InvalidSetting) as refusal:
        parse(setting_type, text)
    assert str(refusal.value) == f"Invalid value {quoted(text)} for configuration name: {message}"


@pytest.mark.parametrize(
    ("setting_type", "text", "limits", "message"),
    [
        (INT, "0", Between(1), "Invalid value 0 for configuration name: Value must be at least 1"),
        (DOUBLE, "2", Between(0, 1), "Invalid value 2.0 for configuration name: Value must be no more than 1"),
        (STRING, "x", OneOf(("a", "b")), "Invalid value x for configuration name: String must be one of: a, b"),
        (LIST, "a,x", EachOneOf(("a", "b")), "Invalid value x for configuration name: String must be one of: a, b"),
        (INT, "0", GzipLevel(), "Invalid value 0 for configuration name: Value must be between 1 and 9 or equal to -1"),
        (STRING, "", NotEmpty(), "Invalid value  for configuration name: String must be non-empty"),
    ],
)
def test_value_outside_the_limits_is_refused_in_kafkas_words(
    setting_type: SettingType, text: str, limits: Validator, message: str
) -> None:
    with pytest.raises(InvalidSetting) as refusal:
        parse(setting_type, text, limits)
    assert str(refusal.value) == message


@pytest.mark.parametrize("text", ["", "*", "0:1,1:2"])
def test_throttled_replicas_are_all_or_pairs(text: str) -> None:
    parse(LIST, text, ThrottledReplicas("name"))


@pytest.mark.parametrize("text", ["none", "*,0:1", "0", "a:b"])
def test_other_throttled_replicas_are_refused(text: str) -> None:
    with pytest.raises(InvalidSetting, match="must be the literal"):
        parse(LIST, text, ThrottledReplicas("name"))


def test_words_may_be_written_in_any_case_where_kafka_says_so() -> None:
    assert parse(STRING, "upgrade", OneOf(("UPGRADE",), ignore_case=True)) == "upgrade"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, "true"),
        (5, "5"),
        ((), ""),
        (("a", "b"), "a,b"),
        (0.5, "0.5"),
        (1.0, "1.0"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (123456789.0, "1.23456789E8"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (-1.5e300, "-1.5E300"),
        (float("inf"), "Infinity"),
        (float("nan"), "NaN"),
    ],
)
def test_value_is_printed_as_java_prints_it(value: Value, expected: str | None) -> None:
    assert value_text(value) == expected


@given(st.floats(allow_nan=False))
def test_printed_double_is_read_back(number: float) -> None:
    text = value_text(number)
    assert text is not None
    assert parse(DOUBLE, text) == number


@pytest.mark.parametrize(
    ("setting_type", "text"),
    [(DOUBLE, "1" * 1_000_000 + "x"), (LIST, "a" + " " * 1_000_000 + "b"), (INT, "1" * 1_000_000)],
)
def test_long_value_is_judged_at_once(setting_type: SettingType, text: str) -> None:
    """Anybody may send one; with time that grows with the square of its length this would not end today."""
    if setting_type is LIST:
        assert parse(setting_type, text) == (text,)
    else:
        with pytest.raises(InvalidSetting):
            parse(setting_type, text)
