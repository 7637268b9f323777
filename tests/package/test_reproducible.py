"""The package that takes what the checkout has compiled, and the one that somebody else builds from nothing."""

from pathlib import Path


def test_two_builds_in_different_folders_are_equal_to_the_byte(debs: dict[str, Path], built_elsewhere: Path) -> None:
    assert debs["current"].read_bytes() == built_elsewhere.read_bytes()
