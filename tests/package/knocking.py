"""Clients that come one after the other, and ask what they can: `python -m tests.package.knocking PORT`.

Says `knocking` when the first was answered. When its standard input ends it prints how many came, how many were
refused, and the longest wait for an answer in milliseconds.
"""

import select
import socket
import sys
import threading
import time

from bench.brokers.readiness import API_VERSIONS

_EVERY_S = 0.05
_PATIENCE_S = 60.0


def main(port: int) -> None:
    waits: list[float] = []
    refused: list[str] = []

    def add_pending() -> None:
        began = time.monotonic()
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE_S) as client:
                client.sendall(API_VERSIONS)
                if len(client.recv(10, socket.MSG_WAITALL)) == 10:
                    waits.append(time.monotonic() - began)
                else:
                    refused.append("closed without an answer")
        except OSError as error:
            refused.append(str(error))

    add_pending()
    assert waits, refused
    print("knocking", flush=True)
    clients: list[threading.Thread] = []
    while not select.select([sys.stdin], [], [], _EVERY_S)[0]:
        clients.append(threading.Thread(target=add_pending))
        clients[-1].start()
    for client in clients:
        client.join()
    print(len(waits) + len(refused), len(refused), int(1000 * max(waits)), sorted(set(refused)), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
