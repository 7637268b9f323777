"""Produces record batches with a `BrokerClient`.

Requests are sent to the partition's leader, and retried if the leader has changed. After a broken connection they are
not retried, because the batch may have been appended.
"""

from kio.schema.produce.v9.request import PartitionProduceData, ProduceRequest, TopicProduceData
from kio.schema.produce.v9.response import ProduceResponse
from kio.schema.types import TopicName
from kio.static.primitive import Records, i16, i32

from kafkad.client.broker_client import BrokerClient, raise_for


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
