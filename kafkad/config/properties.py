"""Parse Java properties files.

Comments, separators, continued lines and escapes are as in java.util.Properties; each entry has its line number. Unlike
in Java, valid UTF-8 is decoded as UTF-8, so that a path may have any characters.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass


class InvalidProperties(ValueError):
    """The text is not a properties file; the message has the line number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    """One entry, with the number of its first line."""

    name: str
    value: str
    line: int


_NATURAL_LINE = re.compile(r"\r\n|\r|\n")
_BLANK = " \t\f"
# A name ends at the first separator or blank without a preceding backslash.
_NAME = re.compile(r"(?:\\.|[^\\=: \t\f])*", re.DOTALL)
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def decode(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def parse(text: str) -> list[Property]:
    """All entries in the order of the file; of entries with the same name, the last one counts."""
    return [_entry(logical, line) for logical, line in _logical_lines(text)]


def _logical_lines(text: str) -> Iterator[tuple[str, int]]:
    naturals = _NATURAL_LINE.split(text)
    if naturals[-1] == "":
        naturals.pop()
    pieces: list[str] = []
    begin = 0
    for number, natural in enumerate(naturals, start=1):
        stripped = natural.lstrip(_BLANK)
        # A line with only a continuation mark begins no entry: the next line may still be a comment.
        if not pieces and (not stripped or stripped[0] in "#!"):
            continue
        begin = begin if pieces else number
        is_continued = _is_continued(stripped)
        piece = stripped[:-1] if is_continued else stripped
        if piece:
            pieces.append(piece)
        if not is_continued or number == len(naturals):
            yield "".join(pieces), begin
            pieces = []


def _is_continued(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _entry(logical: str, line: int) -> Property:
    name = _NAME.match(logical)
    assert name is not None, "the pattern matches the empty text too"
    separator = _SEPARATOR.match(logical, name.end())
    assert separator is not None, "the pattern matches the empty text too"
    return Property(name=_unescape(name[0], line), value=_unescape(logical[separator.end() :], line), line=line)


def _unescape(text: str, line: int) -> str:
    def unescaped_text(found: re.Match[str]) -> str:
        escaped = found[1]
        if escaped == "u":
            raise InvalidProperties(f"line {line}: \\u needs four hexadecimal digits")
        if len(escaped) == 5:
            return chr(int(escaped[1:], 16))
        return _CONTROL.get(escaped, escaped)

    unescaped = _ESCAPE.sub(unescaped_text, text)
    # Java counts UTF-16 units: a letter outside the basic plane is written as two escapes.
    return unescaped.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
