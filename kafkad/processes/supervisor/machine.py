"""Whether the broker supports this machine."""

_SUPPORTED = ("x86_64", "amd64", "i686")
"""Names of uname(2); linux32(8) gives the last one on the same processors."""


def unsupported_machine(machine: str) -> str | None:
    """The error as one line, or None if the machine is supported. `machine` is the output of `uname -m`."""
    if machine in _SUPPORTED:
        return None
    return (
        f"unsupported architecture {machine}: kafkad requires x86-64, because its processes share memory without locks "
        "and rely on the memory order of that architecture"
    )
