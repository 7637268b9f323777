"""The brokers of the cluster with their addresses for one client.

This broker has the advertised address of the client's listener. Other brokers have the address of their listener with
the same name; as in Apache Kafka, the response omits brokers without such a listener.
"""

from kafkad.core.controller.image import Broker, Listener
from kafkad.core.request_context import RequestContext
from kafkad.handlers.requests.broker_view import BrokerView
from kafkad.wire.messages.metadata import BrokerRow


def broker_rows(context: RequestContext, view: BrokerView) -> list[BrokerRow]:
    """The live brokers, sorted by id. This broker is always included, also while it is not registered."""
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
