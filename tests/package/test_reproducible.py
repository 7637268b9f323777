"""The package as others see it: who builds it from nothing, in another folder, and lintian.

Both take long, beside the tests of machines.
"""

from pathlib import Path


def test_two_builds_in_different_folders_are_equal_to_the_byte(debs: dict[str, Path], built_elsewhere: Path) -> None:
    assert debs["current"].read_bytes() == built_elsewhere.read_bytes()


def test_lintian_has_nothing_to_say(complaints: Path) -> None:
    assert complaints.read_text() == ""
