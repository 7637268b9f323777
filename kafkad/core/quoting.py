"""Names and values of clients, quoted at a bounded length: any of them may have 32,767 bytes.

An error message has to fit a string with a length of 16 bits, and is read by people. A log line is written for each
JoinGroup, for example, and should say which group it is about, not fill the disk.
"""

QUOTED_CHARACTERS = 255
"""In an error message: longer than the name of any topic, and at most some hundred bytes."""
LOGGED_CHARACTERS = 64


def quoted(text: str, most: int = QUOTED_CHARACTERS) -> str:
    """For an error message."""
    return text if len(text) <= most else f"{text[:most]}... ({len(text)} characters)"


def logged(text: str) -> str:
    """For a log line, of which unprintable characters would make several."""
    text = quoted(text, LOGGED_CHARACTERS)
    return text if text.isprintable() else "".join(each if each.isprintable() else "?" for each in text)
