"""IncrementalAlterConfigs, versions 0 and 1: set, delete, append to and subtract from single keys (KIP-339)."""

from kafkad.core.controller.admin import alter_configs
from kafkad.core.controller.configs import Alteration, AlterEntry
from kafkad.core.request_context import RequestContext
from kafkad.handlers.controller.alter_configs import response
from kafkad.handlers.controller.requests.controller_view import ControllerView, Response
from kafkad.wire.kio_codec import codec


def handle(body: memoryview, context: RequestContext, view: ControllerView) -> Response:
    messages = codec("incremental_alter_configs", context.version)
    request = messages.decode(body)
    alterations = [
        Alteration(
            resource.resource_type,
            resource.resource_name,
            tuple(AlterEntry(each.name, each.config_operation, each.value) for each in resource.configs),
        )
        for resource in request.resources
    ]
    results = alter_configs(
        view.controller,
        alterations,
        view.configs,
        incremental=True,
        validate_only=request.validate_only,
    )
    return response(messages, request, results, view)
