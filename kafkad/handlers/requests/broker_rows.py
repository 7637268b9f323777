"""The brokers of the cluster as one client gets them: this broker has the address that is advertised to that client."""

from kafkad.core.request_context import RequestContext
from kafkad.handlers.requests.broker_view import BrokerView
from kafkad.wire.messages.metadata import BrokerRow


def broker_rows(context: RequestContext, view: BrokerView) -> list[BrokerRow]:
    """Every live broker, by id. This broker is always among them, registered or not."""
    brokers = view.image.brokers
    rows: list[BrokerRow] = [
        (broker.id, broker.listeners[0].host, broker.listeners[0].port, broker.rack)
        for broker in brokers.values()
        if broker.id != view.broker_id and broker.listeners
    ]
    own = brokers.get(view.broker_id)
    host, port = context.connection.advertised
    rows.append((view.broker_id, host, port, own.rack if own is not None else None))
    return sorted(rows, key=lambda row: row[0])
