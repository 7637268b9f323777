"""A producer that goes on whatever happens to the broker, and judges the log at the end.

`python -m tests.package.load PORT...` (those of all brokers of a cluster, all get replicas): says `producing` when
the first records are acknowledged, produces until its standard input ends, waits for every answer, and compares what it
was told with the log. Exit code 0 if nothing is lost, doubled or out of order.
"""

import random
import select
import sys

from bench.brokers.processes import WITHIN_S
from kafkad.client.broker_client import BrokerClient
from tests.daemon.kill_run import IdempotentProducer, read_back
from tests.daemon.ledger import PARTITIONS, Ledger, check_ledger

TOPIC = "load"


def main(ports: list[int]) -> None:
    bootstrap = ",".join(f"127.0.0.1:{port}" for port in ports)
    with BrokerClient(f"127.0.0.1:{ports[0]}") as client:
        client.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=len(ports), configs={})
    ledger = Ledger()
    seed = random.Random(4)
    producer = IdempotentProducer(seed, bootstrap, TOPIC, ledger)
    has_said = False
    while not select.select([sys.stdin], [], [], 0.005)[0]:
        producer.send(seed.randrange(PARTITIONS), seed.choice([1, 5, 100]))
        if ledger.acknowledged and not has_said:
            print("producing", flush=True)
            has_said = True
    assert producer.flush(WITHIN_S) == 0, "records neither acknowledged nor refused"
    check_ledger(ledger, read_back(bootstrap, TOPIC), idempotent=True)
    print(f"{sum(map(len, ledger.acknowledged.values()))} records", flush=True)


if __name__ == "__main__":
    main([int(port) for port in sys.argv[1:]])
