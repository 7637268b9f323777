"""The brokers of the cluster as one client gets them: this broker has the address that is advertised to that client.

Any other has that of its listener with the same name; without such a listener it is left out, as in Apache Kafka.
"""

from kafkad.core.controller.image import Broker, Listener
from kafkad.core.request_context import RequestContext
from kafkad.handlers.requests.broker_view import BrokerView
from kafkad.wire.messages.metadata import BrokerRow


def broker_rows(context: RequestContext, view: BrokerView) -> list[BrokerRow]:
    """Every live broker, by id. This broker is always among them, registered or not."""
    brokers = view.image.brokers
    rows: list[BrokerRow] = [
        (broker.id, listener.host, listener.port, broker.rack)
        for broker in brokers.values()
        if broker.id != view.broker_id and (listener := _listener(broker, context.connection.listener)) is not None
    ]
    own = brokers.get(view.broker_id)
    host, port = context.connection.advertised
    rows.append((view.broker_id, host, port, own.rack if own is not None else None))
    return sorted(rows, key=lambda row: row[0])


def _listener(broker: Broker, name: str) -> Listener | None:
    return next((listener for listener in broker.listeners if listener.name == name), None)
