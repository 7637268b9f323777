"""The same work for kafkad and for Apache Kafka on this machine, and a table of ratios.

requests.py  requests encoded once, before anything is measured     replies.py   what is read of the answers
load.py      raw load over plain sockets                            latency.py   200 messages a second, end to end
clients.py   librdkafka and Kafka's own performance tools           partitions.py  10,000 partitions
pacing.py    raw load at a given rate                                coordinators.py  until they serve
classic_group.py, consumer_group.py   members of groups, from one thread
host.py      CPU, memory and handles of a process tree, the floor   rows.py      the rows, by name
subjects.py  the brokers that are compared                          report.py    JSON and the table

The broker is the thing measured: nothing here decodes a record, and the load costs a fraction of a core.
"""
