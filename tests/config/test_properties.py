"""The properties parser, against examples of Java's rules and against a writer that escapes as Java's does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkad.config.properties import InvalidProperties, decode, parse


def pairs(text: str) -> list[tuple[str, str]]:
    return [(entry.name, entry.value) for entry in parse(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", [("a", "b")]),
        ("a = b ", [("a", "b ")]),
        ("a:b", [("a", "b")]),
        ("a b c", [("a", "b c")]),
        ("a\t=\tb", [("a", "b")]),
        ("a==b", [("a", "=b")]),
        ("a = = b", [("a", "= b")]),
        ("a", [("a", "")]),
        ("=b", [("", "b")]),
        ("  \t\fa=1\r\nb=2\rc=3\n", [("a", "1"), ("b", "2"), ("c", "3")]),
        ("# a=1\n ! b=2\nc=3 # kept", [("c", "3 # kept")]),
        ("# comments are not continued \\\na=1", [("a", "1")]),
        ("a=1,\\\n   2,\\\r\n\t3", [("a", "1,2,3")]),
        ("a=1\\\n# not a comment", [("a", "1# not a comment")]),
        ("a=1\\\n\nb=2", [("a", "1"), ("b", "2")]),
        ("a=1\\\\\nb=2", [("a", "1\\"), ("b", "2")]),
        ("a=1\\", [("a", "1")]),
        ("\\\n# a comment after all", []),
        ("\\", [("", "")]),
        ("a\\=b\\:c\\ d=e", [("a=b:c d", "e")]),
        ("a=\\t\\n\\r\\f\\q\\\\", [("a", "\t\n\r\fq\\")]),
        ("a=\\u00e4\\u20AC", [("a", "ä€")]),
        ("a=\\ud83d\\ude00", [("a", "😀")]),
        ("a=1\na=2", [("a", "1"), ("a", "2")]),
        ("\n\n \n", []),
    ],
)
def test_text_is_read_as_java_reads_it(text: str, expected: list[tuple[str, str]]) -> None:
    assert pairs(text) == expected


@pytest.mark.parametrize("text", ["a=\\u12", "a=\\uxyzw", "\\u=1"])
def test_broken_unicode_escape_names_its_line(text: str) -> None:
    with pytest.raises(InvalidProperties, match="line 2"):
        parse("first=1\n" + text)


def test_entry_remembers_the_line_it_begins_on() -> None:
    entries = parse("# note\na=1,\\\n 2\nb=3")
    assert [(entry.name, entry.line) for entry in entries] == [("a", 2), ("b", 4)]


def test_bytes_that_are_no_utf8_are_latin1() -> None:
    assert decode("ä".encode()) == "ä"
    assert decode("ä".encode("latin-1")) == "ä"
    assert decode(b"\xef\xbb\xbfa=1") == "a=1"


def as_java_writes(text: str, *, is_name: bool) -> str:
    written = ""
    for place, unit in enumerate(text):
        if unit in "\\=:#!" or (unit == " " and (is_name or place == 0)):
            written += "\\" + unit
        elif unit in "\t\n\r\f":
            written += "\\" + {"\t": "t", "\n": "n", "\r": "r", "\f": "f"}[unit]
        elif not " " <= unit <= "~":
            units = unit.encode("utf-16-be")
            written += "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
        else:
            written += unit
    return written


TEXT = st.text(st.characters(codec="utf-8"), max_size=20)


@given(st.lists(st.tuples(TEXT.filter(bool), TEXT), max_size=5), st.sampled_from(["=", " = ", ":", "\t", " "]))
def test_what_java_writes_comes_back(entries: list[tuple[str, str]], separator: str) -> None:
    lines = [
        as_java_writes(name, is_name=True) + separator + as_java_writes(value, is_name=False) for name, value in entries
    ]
    assert pairs("\n".join(lines)) == entries


@given(st.text(st.sampled_from("ab=: \\\n\r\t#!"), max_size=40))
def test_any_text_is_a_properties_file(text: str) -> None:
    assert len(pairs(text)) <= len(text.splitlines()) + 1
