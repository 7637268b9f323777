"""Real text for the brokers to carry: the source lines of the installed Python packages, in a fixed order."""

import sysconfig
from collections.abc import Iterator
from pathlib import Path

from tests.amounts import amount


def corpus_bytes() -> int:
    """How much text a run carries."""
    return amount("corpus_megabytes") * 1_000_000


def _sources() -> Iterator[Path]:
    paths = sysconfig.get_paths()
    for root in dict.fromkeys((paths["stdlib"], paths["platlib"], paths["purelib"])):
        yield from sorted(Path(root).rglob("*.py"))


def _lines(*, empty: bool) -> Iterator[bytes]:
    """Every source line, over and over; files that a text client cannot carry unchanged are left out.

    Java's console producer takes a carriage return for the end of a line, and text for UTF-8; kcat sends no
    empty lines.
    """
    while True:
        for source in _sources():
            text = source.read_bytes()
            if b"\r" in text or not _is_utf8(text):
                continue
            yield from (line for line in text.split(b"\n") if line or empty)


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def write_parts(folder: Path, names: list[str], total_bytes: int, *, empty: bool) -> dict[str, tuple[Path, int]]:
    """Cut the corpus into one file for each name, of equal size; returns the file and its number of lines."""
    lines, parts, part_bytes = _lines(empty=empty), {}, total_bytes // len(names)
    for name in names:
        path, size, count = folder / f"{name}.txt", 0, 0
        with open(path, "wb") as part:
            while size < part_bytes:
                line = next(lines)
                part.write(line + b"\n")
                size += len(line) + 1
                count += 1
        parts[name] = (path, count)
    return parts
