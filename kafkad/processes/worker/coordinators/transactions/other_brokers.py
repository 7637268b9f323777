"""Requests of coordinators and leaders to other brokers: write transaction markers, verify partitions.

Markers and verifications have separate connections, so that a verification does not wait for the replication of
markers. Every request completes with the codes of the other broker, or with None: it may have been performed or not.
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial

from kafkad.core.controller.image import Broker
from kafkad.core.coordinator.marking import MarkerRequest
from kafkad.core.coordinator.outbox import Outbox
from kafkad.core.errors import ErrorCode
from kafkad.core.transactions.requests import PartitionsToVerify
from kafkad.processes.runtime.broker_connections import (
    BrokerConnections,
    Destination,
    Request,
    inter_broker_destination,
)
from kafkad.processes.runtime.connection_timeouts import ConnectionTimeouts
from kafkad.processes.runtime.event_loop import EventLoop
from kafkad.wire.api_table import ADD_PARTITIONS_TO_TXN, WRITE_TXN_MARKERS
from kafkad.wire.cluster.transactions import (
    ADD_PARTITIONS_TO_TXN_4,
    WRITE_TXN_MARKERS_1,
    TransactionToVerify,
    TxnMarker,
    VerificationRequest,
    WriteTxnMarkersRequest,
    by_topic,
)
from kafkad.wire.primitives import MalformedRequest

log = logging.getLogger(__name__)

Codes = Callable[[list[ErrorCode] | None], None]
"""A code for each partition, in the order of the request; None without a response."""
_MARKERS_VERSION, _VERIFICATION_VERSION = 1, 4
_Marker = tuple[MarkerRequest, Codes]
_Verification = tuple[PartitionsToVerify, Codes]


def _producer_of(item: _Marker) -> int:
    return item[0].requested.producer_id


def _transaction_of(item: _Verification) -> str:
    return item[0].transactional_id


class OtherBrokers:
    """`brokers`: the live brokers. `verifies`: whether their coordinators support verification; otherwise transactions
    are not verified, as in Apache Kafka when the other broker is too old.
    """

    def __init__(
        self,
        loop: EventLoop,
        broker_id: int,
        listener: str,
        timeouts: ConnectionTimeouts,
        *,
        verifies: bool,
        brokers: Callable[[], Mapping[int, Broker]],
    ) -> None:
        self.has_responses = False
        """Whether responses were received since the last tick."""
        self._listener = listener
        self._verifies = verifies
        self._brokers = brokers
        self._to_writers = BrokerConnections(loop, f"broker-{broker_id}-txn-marker-sender", timeouts)
        self._to_coordinators = BrokerConnections(loop, f"broker-{broker_id}-add-partitions-to-txn-manager", timeouts)
        self._markers: Outbox[_Marker] = Outbox(_producer_of)
        self._verifications: Outbox[_Verification] = Outbox(_transaction_of)
        self._destinations: dict[int, Destination] = {}

    def write_markers(self, request: MarkerRequest, completed: Codes) -> None:
        """Request the markers from the broker `request.broker`. Sent at the end of the pass."""
        self._markers.add(request.broker, (request, completed))

    def verify(self, broker: int, request: PartitionsToVerify, completed: Codes) -> None:
        """Request the verification from the coordinator on `broker`. Sent at the end of the pass."""
        if not self._verifies and not request.adds:
            completed([ErrorCode.NONE] * len(request.partitions))
            return
        self._verifications.add(broker, (request, completed))

    def metadata_changed(self) -> None:
        """Fail the requests to brokers that were removed or have another address."""
        for broker, before in list(self._destinations.items()):
            if self._find(broker) != before:
                del self._destinations[broker]
                self._to_writers.drop(before)
                self._to_coordinators.drop(before)

    def tick(self) -> None:
        """Send pending requests, fail timed out ones."""
        self.has_responses = False
        self._to_writers.tick()
        self._to_coordinators.tick()
        for broker in self._markers.ready():
            self._send_markers(broker, self._markers.take(broker))
        for broker in self._verifications.ready():
            self._send_verifications(broker, self._verifications.take(broker))

    @property
    def is_busy(self) -> bool:
        return bool(self._markers.ready() or self._verifications.ready())

    @property
    def next_deadline_ms(self) -> int | None:
        deadlines = (self._to_writers.next_deadline_ms, self._to_coordinators.next_deadline_ms)
        return min((each for each in deadlines if each is not None), default=None)

    def close(self) -> None:
        self._to_writers.close()
        self._to_coordinators.close()

    def _find(self, broker: int) -> Destination | None:
        return inter_broker_destination(self._brokers(), broker, self._listener)

    def _send(
        self,
        connections: BrokerConnections,
        broker: int,
        api_key: int,
        version: int,
        body: bytes,
        on_result: Callable[[memoryview | None], None],
    ) -> None:
        destination = self._find(broker)
        if destination is None:
            on_result(None)
            return
        self._destinations[broker] = destination

        def on_reply(response: memoryview) -> None:
            self.has_responses = True
            on_result(response)

        def on_failure(_reason: str) -> None:
            self.has_responses = True
            on_result(None)

        request = Request(
            api_key=api_key,
            version=version,
            is_flexible=True,
            body=body,
            on_reply=on_reply,
            on_failure=on_failure,
        )
        connections.send(destination, request)

    # Markers.

    def _send_markers(self, broker: int, items: list[_Marker]) -> None:
        markers = tuple(_marker(request) for request, _ in items)
        body = WRITE_TXN_MARKERS_1.encode_request(WriteTxnMarkersRequest(markers=markers), _MARKERS_VERSION)
        on_result = partial(self._markers_written, broker, items)
        self._send(self._to_writers, broker, WRITE_TXN_MARKERS, _MARKERS_VERSION, body, on_result)

    def _markers_written(self, broker: int, items: list[_Marker], response: memoryview | None) -> None:
        self._markers.completed(broker)
        codes = {}
        if response is not None:
            try:
                codes = WRITE_TXN_MARKERS_1.decode_response(response, _MARKERS_VERSION)
            except MalformedRequest as error:
                log.warning("broker %d: %s", broker, error)
        for request, completed in items:
            found = codes.get(request.requested.producer_id)
            missing = ErrorCode.UNKNOWN_SERVER_ERROR
            completed(None if found is None else [found.get(each, missing) for each in request.partitions])

    # Verification.

    def _send_verifications(self, broker: int, items: list[_Verification]) -> None:
        transactions = tuple(_transaction(request) for request, _ in items)
        verification = VerificationRequest(transactions=transactions)
        body = ADD_PARTITIONS_TO_TXN_4.encode_request(verification, _VERIFICATION_VERSION)
        on_result = partial(self._verified, broker, items)
        self._send(self._to_coordinators, broker, ADD_PARTITIONS_TO_TXN, _VERIFICATION_VERSION, body, on_result)

    def _verified(self, broker: int, items: list[_Verification], response: memoryview | None) -> None:
        self._verifications.completed(broker)
        codes: dict[str, dict[tuple[str, int], ErrorCode]] = {}
        error_code = ErrorCode.NONE
        if response is not None:
            try:
                verified = ADD_PARTITIONS_TO_TXN_4.decode_response(response, _VERIFICATION_VERSION)
            except MalformedRequest as error:
                log.warning("broker %d: %s", broker, error)
            else:
                codes, error_code = verified.codes, verified.error_code
        for request, completed in items:
            if error_code != ErrorCode.NONE:
                # As Apache Kafka: the brokers of the cluster are not authorized for each other.
                completed([ErrorCode.INVALID_TXN_STATE] * len(request.partitions))
                continue
            found = codes.get(request.transactional_id)
            missing = ErrorCode.UNKNOWN_SERVER_ERROR
            completed(None if found is None else [found.get((*each,), missing) for each in request.partitions])


def _marker(request: MarkerRequest) -> TxnMarker:
    requested = request.requested
    return TxnMarker(
        producer_id=requested.producer_id,
        producer_epoch=requested.producer_epoch,
        is_commit=requested.is_commit,
        topics=by_topic(request.partitions),
        coordinator_epoch=requested.coordinator_epoch,
    )


def _transaction(request: PartitionsToVerify) -> TransactionToVerify:
    return TransactionToVerify(
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        verify_only=not request.adds,
        topics=by_topic(request.partitions),
    )
