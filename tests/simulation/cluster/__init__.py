"""Three whole brokers in one thread, in an order that a seed decides: processes as in `tests.simulation`, and fetchers.

The brokers are those of the simulation of one, with the real controller process of a cluster: it is elected, tells the
others over connections, and hears them. What is played is what lies between them: ZooKeeper (`ensemble`) with sessions
that break, end and are resumed, the network (`network`) with links that are down and connections that break, and the
supervisor's part of a controlled shutdown (`leaving`). `faults` decides who suffers; an `administrator` moves
partitions, has preferred leaders elected, deletes a topic and makes it again; `replicas` holds all logs, and the nodes
of their topics, against what was once committed, after each event that others can see. Transactions go over leaders of
several brokers and a coordinator that moves, a group commits offsets to another. In the end the replicas are those that
the assignments name, equal, and every broker knows who leads them.

A seed tells the same story in every process, whatever strings hash to there.

    python -m tests.simulation.cluster 1234
    KAFKAD_TEST_AMOUNTS="cluster_stories=5000" pytest tests/simulation/cluster/test_cluster_seeds.py
"""
