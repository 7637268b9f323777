"""The attributes of a class with slots, interpreted or compiled."""


def attributes_of(kind: type) -> tuple[str, ...]:
    """A compiled class has no `__slots__`: mypyc keeps the same names elsewhere."""
    slots: tuple[str, ...] = getattr(kind, "__slots__" if hasattr(kind, "__slots__") else "__mypyc_attrs__")
    assert slots
    return slots
