"""Whether this machine is one that the broker can run on at all."""

_KNOWN = ("x86_64", "amd64", "i686")
"""As uname(2) names them; the last one is said under linux32(8) on the same processors."""


def refusal(machine: str) -> str | None:
    """`machine` is what `uname -m` prints. One line, or None where all is well."""
    if machine in _KNOWN:
        return None
    return (
        f"this machine is {machine}, and kafkad runs on x86-64 only: its processes share memory without locks and rely "
        "on the order in which that architecture writes"
    )
