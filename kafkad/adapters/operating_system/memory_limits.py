"""How much memory may this process have, and how much all that are in its control groups?"""

import resource
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_OWN_GROUPS = Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")


def data_limit() -> int | None:
    """The soft limit of a process's own memory; None: it has none."""
    soft, _ = resource.getrlimit(resource.RLIMIT_DATA)
    return None if soft == resource.RLIM_INFINITY else soft


def group_limit(own_groups: Path = _OWN_GROUPS, groups: Path = _GROUPS) -> int | None:
    """The smallest limit of the control groups that this process is in; None: they have none, or don't say it."""
    try:
        lines = own_groups.read_text().splitlines()
    except OSError:
        return None
    found: list[int] = []
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number == "0":
            found += _limits(groups, path, "memory.max")
        elif "memory" in controllers.split(","):
            found += _limits(groups / "memory", path, "memory.limit_in_bytes")
    return min(found, default=None)


def _limits(root: Path, path: str, name: str) -> Iterable[int]:
    """In a container the path may be that of its host, and its own group the root."""
    group = root / path.lstrip("/")
    for folder in (group, *group.parents):
        if folder.is_relative_to(root):
            # "max" is no limit, and so is a number beyond any memory.
            with suppress(OSError, ValueError):
                yield int((folder / name).read_text())
