"""Produces record batches with a `BrokerClient`.

The partition of a record is chosen by the rules of Kafka's own producer: records with the same key have the same
partition for all clients. Records without a key stay together in one batch, and the next batch is sent to the next
partition.

Requests are sent to the partition's leader, and retried if the leader has changed. After a broken connection they are
not retried, because the batch may have been appended.
"""

from kio.schema.produce.v9.request import PartitionProduceData, ProduceRequest, TopicProduceData
from kio.schema.produce.v9.response import ProduceResponse
from kio.schema.types import TopicName
from kio.static.primitive import Records, i16, i32

from kafkad.client.broker_client import BrokerClient, raise_for

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


def produce(client: BrokerClient, topic: str, partition: int, batch: bytes, *, acks: int) -> int:
    """Append one record batch. Returns the offset of its first record, or -1 with acks=0."""
    data = PartitionProduceData(index=i32(partition), records=Records(batch))
    request = ProduceRequest(
        acks=i16(acks),
        timeout=client.wait,
        topic_data=(TopicProduceData(name=TopicName(topic), partition_data=(data,)),),
    )
    if acks == 0:
        client.until_deadline(lambda: client.leader_of(topic, partition)).send(request)
        return -1

    def attempt() -> int:
        leader = client.leader_of(topic, partition)
        response = leader.call(request, ProduceResponse, wait_s=client.wait.total_seconds())
        result = response.responses[0].partition_responses[0]
        raise_for(result.error_code, f"{topic}-{partition} did not accept the records", result.error_message)
        return result.base_offset

    return client.until_deadline(attempt)
