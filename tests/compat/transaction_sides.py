"""The same request to the transaction coordinator of Apache Kafka and to ours: what does each answer?

Ours is the rules and the handlers without a broker around them, so that time stands still between two requests.
Producer ids are whatever a broker gives, so what is compared are their names: "p0" is the first that was seen.
"""

import re
from dataclasses import asdict
from datetime import timedelta
from enum import Enum
from struct import Struct
from typing import Any, Protocol

from bench.brokers.processes import eventually
from tests.core.transactions.bed import TransactionBed
from tests.handlers.coordinators.transaction_calls import call, nested, read
from tests.handlers.kio_calls import KioApi
from tests.tools.raw_requests import RawClient

_HEADER = Struct(">hhih")


class Side(Protocol):
    """One coordinator."""

    def ask(self, api: str, version: int, **values: Any) -> Any:
        """kio's response."""

    def settle(self, transactional_id: str) -> None:
        """Return when no marker of the id is under way."""

    def expire(self, transactional_id: str, timeout: timedelta) -> None:
        """Return when its open transaction is over."""


class BrokerSide:
    """A broker that runs, whoever's it is."""

    def __init__(self, port: int, client_id: str = "side") -> None:
        self._client = RawClient(port)
        self._client_id = client_id.encode()

    def ask(self, api: str, version: int, **values: Any) -> Any:
        kio = KioApi(api, version)
        body = bytes(kio.request(**nested(kio, values)))
        message = kio.part("".join(part.capitalize() for part in api.split("_")) + "Request", **nested(kio, values))
        head = _HEADER.pack(message.__api_key__, version, 1, len(self._client_id)) + self._client_id
        head += b"\x00" if message.__flexible__ else b""
        request = Struct(">i").pack(len(head) + len(body)) + head + body
        reply = self._client.ask(request)
        return read(kio, api, reply[1:] if message.__flexible__ else reply)

    def wake(self) -> None:
        """Return when there are coordinators for all ids: their topic is made for the first who asks for one."""

        def is_awake() -> bool:
            self.ask("find_coordinator", 4, key_type=1, coordinator_keys=("x",))
            rows = self.ask("describe_transactions", 0, transactional_ids=tuple(f"id-{n}" for n in range(500)))
            if {row.error_code.name for row in rows.transaction_states} != {"transactional_id_not_found"}:
                return False
            first = self.ask("init_producer_id", 2, transactional_id=None, transaction_timeout=timedelta(0))
            return bool(first.error_code.name == "none")

        eventually(is_awake, what="all transactional ids have a coordinator")

    def settle(self, transactional_id: str) -> None:
        self._wait_until_not(transactional_id, "PrepareCommit", "PrepareAbort")

    def expire(self, transactional_id: str, timeout: timedelta) -> None:
        self._wait_until_not(transactional_id, "Ongoing", "PrepareAbort")

    def _wait_until_not(self, transactional_id: str, *states: str) -> None:
        def is_elsewhere() -> bool:
            (row,) = self.ask("describe_transactions", 0, transactional_ids=(transactional_id,)).transaction_states
            return row.transaction_state not in states

        eventually(is_elsewhere, what=f"{transactional_id} is neither of {states}")

    def close(self) -> None:
        self._client.sock.close()


class OurSide:
    def __init__(self, **config: Any) -> None:
        self.bed = TransactionBed(**config)

    def ask(self, api: str, version: int, **values: Any) -> Any:
        return call(self.bed, api, version, **values)

    def settle(self, transactional_id: str) -> None:
        self.bed.write_markers()

    def expire(self, transactional_id: str, timeout: timedelta) -> None:
        self.bed.advance(round(timeout / timedelta(milliseconds=1)) + 1)
        self.bed.write_markers()


class Names:
    """Producer ids by the order in which a side gave them."""

    def __init__(self) -> None:
        self._known: dict[int, str] = {}

    def of(self, producer_id: int) -> str:
        if producer_id < 0:
            return str(producer_id)
        return self._known.setdefault(producer_id, f"p{len(self._known)}")


def plain(response: Any, names: Names) -> Any:
    """A response as values that can be compared: without times, and with names for producer ids."""
    return _plain(asdict(response), names, sort=True)


def _plain(value: Any, names: Names, *, sort: bool) -> Any:
    match value:
        case dict():
            skipped = {"throttle_time", "transaction_start_time"}
            if getattr(value.get("error_code"), "name", "none") != "none":
                # It says nothing then, and is 0 or -1.
                skipped.add("producer_id")
            return {
                key: names.of(each) if key == "producer_id" else _plain(each, names, sort=sort)
                for key, each in value.items()
                if key not in skipped
            }
        case tuple() | list():
            return sorted((_plain(each, names, sort=sort) for each in value), key=repr)
        case Enum():
            return value.name
        case timedelta():
            return value.total_seconds()
    return value


def quoted(text: str) -> str:
    """A pattern of exactly this."""
    return re.escape(text)
