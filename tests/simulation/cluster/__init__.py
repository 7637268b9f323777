"""Three whole brokers in one thread, in an order that a seed decides: processes as in `tests.simulation`, and fetchers.

The brokers are those of the simulation of one, with the real controller process of a cluster: it is elected, tells the
others over connections, and hears them. What is played is what lies between them: ZooKeeper (`ensemble`) with sessions
that break, end and are resumed, and the network (`network`) with links that are down and connections that break.
`faults` decides who suffers; `replicas` holds all logs against what was once committed, after each event that others
can see.

A seed almost always tells the same story again; on a busy machine one in some differs by a round.

    python -m tests.simulation.cluster 1234
    KAFKAD_SIMULATION_SEEDS=5000 pytest tests/simulation/cluster/test_cluster_seeds.py
"""
