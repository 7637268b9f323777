"""The same work for kafkad and for Apache Kafka on this machine, and a table of ratios.

requests.py, replies.py    requests encoded once, before anything is measured, and what is read of the answers
load.py, pacing.py         raw load over plain sockets, as fast as it goes and at a given rate
connection.py, admin.py    what the rows ask a broker for themselves
latency.py                 200 messages a second, end to end
classic_group.py, consumer_group.py, coordinators.py   members of groups, from one thread; until coordinators serve
rows.py, *_rows.py         the rows, by name, and how each is measured
host.py                    CPU, memory and handles of a process tree, the floor
figures.py, report.py, scale.py   figures, JSON and the table, how much is done
brokers/                   the brokers that are compared, which tests start as well

The broker is the thing measured: nothing here decodes a record, and the load costs a fraction of a core.
"""
