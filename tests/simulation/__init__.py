"""A whole broker in one thread: every process of it, its links, disk and clients, in an order that a seed decides.

The processes are the real ones, from their `run` down to the files; what they wait with is replaced: epoll, clock,
threads, links and sockets belong to a scheduler (`scheduler`, `ports`). So any of them may be stopped, delayed or
killed at every place where others can see what it does, and a run can be repeated exactly:

    python -m tests.simulation 1234
    KAFKAD_TEST_AMOUNTS="broker_stories=5000" pytest tests/simulation/test_seeds.py

`broker` plays the supervisor, `faults` decides who suffers; `producer`, `consumer`, `admin`, `transactions` and
`committed` are clients that retry as real ones do, `truth` and `Ledger` hold what they were told against what the logs
have, `run` is one seed from the start to the last look, `mutants` are brokers that it has to find out.
"""
