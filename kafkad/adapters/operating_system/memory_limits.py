"""The memory limits of this process and of its control groups."""

import resource
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_OWN_GROUPS = Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")


def data_limit() -> int | None:
    """The soft limit of a process's private memory (RLIMIT_DATA); None without a limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_DATA)
    return None if soft == resource.RLIM_INFINITY else soft


def group_limit(own_groups: Path = _OWN_GROUPS, groups: Path = _GROUPS) -> int | None:
    """The smallest limit of this process's control groups; None if there is no limit, or no readable one."""
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
    """The limits of the group and its parents. In a container the path may be the host's, and the group the root."""
    group = root / path.lstrip("/")
    for folder in (group, *group.parents):
        if folder.is_relative_to(root):
            # "max" is no limit.
            with suppress(OSError, ValueError):
                yield int((folder / name).read_text())
