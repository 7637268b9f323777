"""The partition of an internal topic that is responsible for a group or a transactional id.

Kafka's rule: the absolute value of Java's String.hashCode over UTF-16 units, modulo the number of partitions. The rule
for record keys clears the sign bit instead, which gives another number for a negative hash.
"""

from functools import lru_cache

_MASK = 0xFFFFFFFF
_SMALLEST = -(2**31)
_LONGEST_CACHED = 255


def java_hash(text: str) -> int:
    """String.hashCode. A lone surrogate counts as in Java.

    The sum of unit * 31**(number of units after it). A name may have 32 KB, so this is not computed unit by unit: lanes
    of one large integer are folded in pairs, then its upper half onto its lower half, until one lane is left.
    """
    units = text.encode("utf-16-be", "surrogatepass")
    lanes = 1 << max(0, (len(units) - 1) // 8).bit_length()
    number = int.from_bytes(units, "big")
    number = _fold(number, 16, 31, _masks(2 * lanes, 2))
    number = _fold(number, 32, 31**2, _masks(lanes, 4))
    while lanes > 1:
        lanes //= 2
        upper = number >> 64 * lanes
        lower = number ^ upper << 64 * lanes
        number = upper * pow(31, 4 * lanes, _MASK + 1) + lower & _masks(lanes, 4)
    number &= _MASK
    return number - (number >> 31 << 32)


def _fold(number: int, bits: int, factor: int, masks: int) -> int:
    return (number >> bits & masks) * factor + (number & masks)


@lru_cache(maxsize=32)
def _masks(lanes: int, width: int) -> int:
    """The mask for the lower half, `width` bytes, of each lane."""
    return int.from_bytes((bytes(width) + b"\xff" * width) * lanes, "big")


def partition_for(key: str, partitions: int) -> int:
    """Results for long keys are not cached: an attacker's thousands of keys would fill the memory."""
    if len(key) > _LONGEST_CACHED:
        return _partition(java_hash(key), partitions)
    return _cached(key, partitions)


@lru_cache(maxsize=8192)
def _cached(key: str, partitions: int) -> int:
    return _partition(java_hash(key), partitions)


def _partition(number: int, partitions: int) -> int:
    """The smallest integer has no absolute value in Java; Kafka uses 0."""
    return 0 if number == _SMALLEST else abs(number) % partitions
