"""What coordinators and leaders ask other brokers about transactions: to write markers, and to verify partitions.

Markers and questions have a connection each, so that a question does not wait until markers are replicated. Every
request is answered, with the codes of the other broker or with None: it may have been carried out or not.
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
"""A code for each partition, in the order asked; None when no answer came."""
_MARKERS_VERSION, _VERIFICATION_VERSION = 1, 4
_Marker = tuple[MarkerRequest, Codes]
_Verification = tuple[PartitionsToVerify, Codes]


def _producer_of(item: _Marker) -> int:
    return item[0].requested.producer_id


def _transaction_of(item: _Verification) -> str:
    return item[0].transactional_id


class OtherBrokers:
    """`brokers` are those that live. `verifies`: whether their coordinators know how to verify a transaction; otherwise
    none is, as in Apache Kafka when the other broker is too old.
    """

    def __init__(
        self,
        loop: EventLoop,
        broker_id: int,
        listener: str,
        patience: ConnectionTimeouts,
        *,
        verifies: bool,
        brokers: Callable[[], Mapping[int, Broker]],
    ) -> None:
        self.has_heard = False
        """An answer came, and nobody has worked on what follows from it."""
        self._listener = listener
        self._verifies = verifies
        self._brokers = brokers
        self._to_writers = BrokerConnections(loop, f"broker-{broker_id}-txn-marker-sender", patience)
        self._to_coordinators = BrokerConnections(loop, f"broker-{broker_id}-add-partitions-to-txn-manager", patience)
        self._markers: Outbox[_Marker] = Outbox(_producer_of)
        self._verifications: Outbox[_Verification] = Outbox(_transaction_of)
        self._known: dict[int, Destination] = {}

    def write_markers(self, request: MarkerRequest, answered: Codes) -> None:
        """Have markers written by the broker `request.broker`. Sent when the pass ends."""
        self._markers.add(request.broker, (request, answered))

    def verify(self, broker: int, question: PartitionsToVerify, answered: Codes) -> None:
        """Ask the transaction coordinator on `broker`. Sent when the pass ends."""
        if not self._verifies and not question.adds:
            answered([ErrorCode.NONE] * len(question.partitions))
            return
        self._verifications.add(broker, (question, answered))

    def metadata_changed(self) -> None:
        """Requests to a broker that is gone, or that moved, fail now."""
        for broker, before in list(self._known.items()):
            if self._find(broker) != before:
                del self._known[broker]
                self._to_writers.drop(before)
                self._to_coordinators.drop(before)

    def work(self) -> None:
        """In each pass that has news: send what waits, give up what is late."""
        self.has_heard = False
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
        replied: Callable[[memoryview | None], None],
    ) -> None:
        to = self._find(broker)
        if to is None:
            replied(None)
            return
        self._known[broker] = to

        def on_reply(answer: memoryview) -> None:
            self.has_heard = True
            replied(answer)

        def on_failure(_reason: str) -> None:
            self.has_heard = True
            replied(None)

        request = Request(
            api_key=api_key,
            version=version,
            is_flexible=True,
            body=body,
            on_reply=on_reply,
            on_failure=on_failure,
        )
        connections.send(to, request)

    # Markers.

    def _send_markers(self, broker: int, items: list[_Marker]) -> None:
        markers = tuple(_marker(request) for request, _ in items)
        body = WRITE_TXN_MARKERS_1.encode_request(WriteTxnMarkersRequest(markers=markers), _MARKERS_VERSION)
        replied = partial(self._markers_written, broker, items)
        self._send(self._to_writers, broker, WRITE_TXN_MARKERS, _MARKERS_VERSION, body, replied)

    def _markers_written(self, broker: int, items: list[_Marker], answer: memoryview | None) -> None:
        self._markers.completed(broker)
        codes = {}
        if answer is not None:
            try:
                codes = WRITE_TXN_MARKERS_1.decode_response(answer, _MARKERS_VERSION)
            except MalformedRequest as error:
                log.warning("broker %d: %s", broker, error)
        for request, answered in items:
            found = codes.get(request.requested.producer_id)
            missing = ErrorCode.UNKNOWN_SERVER_ERROR
            answered(None if found is None else [found.get(each, missing) for each in request.partitions])

    # Verification.

    def _send_verifications(self, broker: int, items: list[_Verification]) -> None:
        transactions = tuple(_transaction(question) for question, _ in items)
        asked = VerificationRequest(transactions=transactions)
        body = ADD_PARTITIONS_TO_TXN_4.encode_request(asked, _VERIFICATION_VERSION)
        replied = partial(self._verified, broker, items)
        self._send(self._to_coordinators, broker, ADD_PARTITIONS_TO_TXN, _VERIFICATION_VERSION, body, replied)

    def _verified(self, broker: int, items: list[_Verification], answer: memoryview | None) -> None:
        self._verifications.completed(broker)
        codes: dict[str, dict[tuple[str, int], ErrorCode]] = {}
        refusal = ErrorCode.NONE
        if answer is not None:
            try:
                response = ADD_PARTITIONS_TO_TXN_4.decode_response(answer, _VERIFICATION_VERSION)
            except MalformedRequest as error:
                log.warning("broker %d: %s", broker, error)
            else:
                codes, refusal = response.codes, response.error_code
        for question, answered in items:
            if refusal != ErrorCode.NONE:
                # As Apache Kafka: only a cluster whose brokers may not talk to each other answers that.
                answered([ErrorCode.INVALID_TXN_STATE] * len(question.partitions))
                continue
            found = codes.get(question.transactional_id)
            missing = ErrorCode.UNKNOWN_SERVER_ERROR
            answered(None if found is None else [found.get((*each,), missing) for each in question.partitions])


def _marker(request: MarkerRequest) -> TxnMarker:
    requested = request.requested
    return TxnMarker(
        producer_id=requested.producer_id,
        producer_epoch=requested.producer_epoch,
        is_commit=requested.is_commit,
        topics=by_topic(request.partitions),
        coordinator_epoch=requested.coordinator_epoch,
    )


def _transaction(question: PartitionsToVerify) -> TransactionToVerify:
    return TransactionToVerify(
        transactional_id=question.transactional_id,
        producer_id=question.producer_id,
        producer_epoch=question.producer_epoch,
        verify_only=not question.adds,
        topics=by_topic(question.partitions),
    )
