"""Can the broker run on this machine at all?"""

_KNOWN = ("x86_64", "amd64", "i686")
"""Names of uname(2); linux32(8) gives the last one on the same processors."""


def refusal(machine: str) -> str | None:
    """`machine` is what `uname -m` prints. One line, or None if the machine is supported."""
    if machine in _KNOWN:
        return None
    return (
        f"this machine is {machine}, and kafkad runs on x86-64 only: its processes share memory without locks and rely "
        "on the order in which that architecture writes"
    )
