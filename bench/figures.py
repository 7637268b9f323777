"""A measured figure, and the comparison of two figures."""

from dataclasses import dataclass
from enum import StrEnum

from bench.host import Cpu


class Better(StrEnum):
    """Whether higher or lower values are better."""

    HIGHER = "higher"
    LOWER = "lower"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A value of one broker in one row; None with a reason if the row failed."""

    row: str
    name: str
    unit: str
    better: Better
    value: float | None
    why_not: str = ""

    def advantage_over(self, other: "Figure") -> float | None:
        """The ratio by which this figure is better than `other`; below 1 if it is worse."""
        if self.value is None or other.value is None or not self.value or not other.value:
            return None
        ratio = self.value / other.value
        return ratio if self.better is Better.HIGHER else 1 / ratio


def rate(row: str, name: str, value: float, unit: str) -> Figure:
    return Figure(row=row, name=name, unit=unit, better=Better.HIGHER, value=value)


def cost(row: str, name: str, value: float, unit: str) -> Figure:
    return Figure(row=row, name=name, unit=unit, better=Better.LOWER, value=value)


def cpu_per_gigabyte(row: str, used: Cpu, payload: float) -> list[Figure]:
    """Broker CPU for the payload bytes: total, user and system."""
    gigabytes = payload / 1e9
    return [
        cost(row, "broker CPU", used.total / gigabytes, "s/GB"),
        cost(row, "broker CPU user", used.user / gigabytes, "s/GB"),
        cost(row, "broker CPU system", used.system / gigabytes, "s/GB"),
    ]


def cpu_per_request(row: str, used: Cpu, requests: int) -> list[Figure]:
    """Broker CPU for each request: total, user and system."""
    return [
        cost(row, "broker CPU", used.total / requests * 1e6, "µs/request"),
        cost(row, "broker CPU user", used.user / requests * 1e6, "µs/request"),
        cost(row, "broker CPU system", used.system / requests * 1e6, "µs/request"),
    ]
