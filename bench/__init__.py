"""The benchmark: the same work for kafkad and for Apache Kafka on this machine, and a table of ratios.

requests.py, replies.py    encoding of requests before a measurement, and decoding of some fields of replies
load.py, pacing.py         raw load over plain sockets, at maximum speed and at a fixed rate
connection.py, admin.py    requests of the rows themselves, for example to create topics
latency.py                 200 messages a second, end to end
classic_group.py, consumer_group.py, coordinators.py   members of groups in one thread; waits for coordinators
rows.py, *_rows.py         the rows by name, and their measurements
host.py                    CPU, memory and file descriptors of a process tree, the floor
figures.py, report.py, scale.py   figures, JSON and the table, amounts of work
brokers/                   the compared brokers, which tests start too

Only the broker is measured: nothing here decodes a record, and the load takes a fraction of a core.
"""
