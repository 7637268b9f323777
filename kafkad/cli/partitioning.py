"""The partition of a record, by the rules of Kafka's own producer.

Records with the same key have the same partition for all clients. Records without a key stay together in one batch, and
the next batch is sent to the next partition.
"""

_MASK = 0xFFFFFFFF
_MIX = 0x5BD1E995
_SEED = 0x9747B28C


def partition_of_key(key: bytes, partition_count: int) -> int:
    """Kafka's default for records with a key: murmur2 without the sign bit, modulo the number of partitions."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


def murmur2(data: bytes) -> int:
    """MurmurHash 2 (32 bits, little endian) with the seed that Kafka's clients use."""
    hashed = (_SEED ^ len(data)) & _MASK
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * _MIX & _MASK
        word = (word ^ word >> 24) * _MIX & _MASK
        hashed = (hashed * _MIX & _MASK) ^ word
    if whole < len(data):
        hashed = (hashed ^ int.from_bytes(data[whole:], "little")) * _MIX & _MASK
    hashed = (hashed ^ hashed >> 13) * _MIX & _MASK
    return hashed ^ hashed >> 15
