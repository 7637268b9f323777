"""Records to a running broker in whole batches: Produce over a `BrokerClient`.

It goes to the partition's leader, and is repeated at the new one when leadership moved. If its connection broke, it is
not sent again: the batch may be there already.
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
        answer = response.responses[0].partition_responses[0]
        raise_for(answer.error_code, f"{topic}-{partition} did not accept the records", answer.error_message)
        return answer.base_offset

    return client.until_deadline(attempt)
