"""Quotes names and values of clients at a bounded length: each may have 32,767 bytes.

An error message has to fit a string with a 16-bit length, and is for people. A log line, for example for each
JoinGroup, should identify the group without filling the disk.
"""

QUOTED_CHARACTERS = 255
"""For error messages: longer than any topic name, and at most some hundred bytes."""
LOGGED_CHARACTERS = 64


def quoted(text: str, most: int = QUOTED_CHARACTERS) -> str:
    """The text for an error message."""
    return text if len(text) <= most else f"{text[:most]}... ({len(text)} characters)"


def logged(text: str) -> str:
    """The text for a log line; unprintable characters could split the line."""
    text = quoted(text, LOGGED_CHARACTERS)
    return text if text.isprintable() else "".join(each if each.isprintable() else "?" for each in text)
