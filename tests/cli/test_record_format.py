import json

import pytest

from kafkad.cli.record_format import ConsumedRecord, UnknownToken, compile_format, format_json

RECORD = ConsumedRecord(
    topic="demo",
    partition=3,
    offset=42,
    timestamp=1700000000000,
    key=b"k",
    value=b"v%",
    headers=[("a", b"b"), ("c", None)],
)


def test_tokens_stand_for_the_parts_of_a_record() -> None:
    formatter = compile_format(r"%t [%p] %o %T %k=%s (%h) 100%%\n\t\\")
    assert formatter(RECORD) == b"demo [3] 42 1700000000000 k=v% (a=b,c=) 100%\n\t\\"


def test_null_key_and_value_are_empty_in_text() -> None:
    assert compile_format("<%k|%s>")(RECORD._replace(key=None, value=None)) == b"<|>"


@pytest.mark.parametrize("text", ["%x", "100%", "%"])
def test_percent_sign_that_stands_for_nothing_is_refused(text: str) -> None:
    with pytest.raises(UnknownToken):
        compile_format(text)


def test_json_is_one_object_on_one_line() -> None:
    line = format_json(RECORD._replace(value="zwei\nZeilen, ü".encode()))
    assert line.count(b"\n") == 1
    assert json.loads(line) == {
        "topic": "demo",
        "partition": 3,
        "offset": 42,
        "timestamp": 1700000000000,
        "key": "k",
        "value": "zwei\nZeilen, ü",
        "headers": [{"key": "a", "value": "b"}, {"key": "c", "value": None}],
    }


def test_bytes_that_are_no_text_come_as_base64_in_json() -> None:
    shown = json.loads(format_json(RECORD._replace(key=None, value=b"\xff\x00")))
    assert shown["key"] is None
    assert shown["value_base64"] == "/wA="
    assert "value" not in shown
