"""What holds of the name of every object."""


def assert_is_name(name: object) -> None:
    assert isinstance(name, str) and name and name == name.strip(), "the configuration names it, as text"
