"""Which partition of an internal topic is responsible for a group or a transactional id?

Kafka's rule: Java's String.hashCode over UTF-16 units, its absolute value, modulo the number of partitions.
Not to be mixed up with the rule for keys of records, which clears the sign bit: for a negative number that is another.
"""

from functools import lru_cache

_MASK = 0xFFFFFFFF
_SMALLEST = -(2**31)


def java_hash(text: str) -> int:
    """String.hashCode. A lone surrogate counts as Java counts it."""
    units = text.encode("utf-16-be", "surrogatepass")
    result = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        result = (31 * result + (high << 8 | low)) & _MASK
    return result - (result >> 31 << 32)


@lru_cache(maxsize=8192)
def partition_for(key: str, partitions: int) -> int:
    """The smallest number has no absolute value in Java; Kafka's is 0."""
    number = java_hash(key)
    return 0 if number == _SMALLEST else abs(number) % partitions
