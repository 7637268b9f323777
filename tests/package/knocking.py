"""Clients that come one after the other, and ask what they can: `python -m tests.package.knocking PORT`.

Says `knocking` when the first was answered. When its standard input ends it prints how many came, how many were
refused, and why.
"""

import select
import socket
import sys
import threading

from bench.brokers.readiness import API_VERSIONS

_EVERY_S = 0.05
_PATIENCE_S = 3600.0
"""The machine may be slow; whoever is never answered ends with the test."""


def main(port: int) -> None:
    answered: list[bytes] = []
    refused: list[str] = []

    def add_pending() -> None:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE_S) as client:
                client.sendall(API_VERSIONS)
                answer = client.recv(10, socket.MSG_WAITALL)
                if len(answer) == 10:
                    answered.append(answer)
                else:
                    refused.append("closed without an answer")
        except OSError as error:
            refused.append(str(error))

    add_pending()
    assert answered, refused
    print("knocking", flush=True)
    clients: list[threading.Thread] = []
    while not select.select([sys.stdin], [], [], _EVERY_S)[0]:
        clients.append(threading.Thread(target=add_pending))
        clients[-1].start()
    for client in clients:
        client.join()
    print(len(answered) + len(refused), len(refused), sorted(set(refused)), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
