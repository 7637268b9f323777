"""Who answers what in a network process, and what they look at."""

from dataclasses import dataclass

from kafkad.handlers.requests.view import BrokerView
from kafkad.processes.network.answers import Answers
from kafkad.processes.network.connections.throttle import Throttle
from kafkad.processes.network.controller_requests import ControllerRequests
from kafkad.processes.network.coordinator_requests import CoordinatorRequests
from kafkad.processes.network.fetch_requests import FetchRequests
from kafkad.processes.network.owner_requests import OwnerRequests
from kafkad.processes.network.produce_requests import ProduceRequests


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHandlers:
    """`dispatch` says which of them a request goes to."""

    view: BrokerView
    answers: Answers
    produce: ProduceRequests
    fetch: FetchRequests
    controller: ControllerRequests
    owners: OwnerRequests
    coordinators: CoordinatorRequests
    throttle: Throttle
