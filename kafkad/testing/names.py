"""A check of the names of objects."""


def assert_is_name(name: object) -> None:
    assert isinstance(name, str) and name and name == name.strip(), "the configuration contains the name as text"
