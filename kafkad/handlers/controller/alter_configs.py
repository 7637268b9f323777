"""AlterConfigs, versions 0 to 2: replaces the whole configuration of a resource (deprecated by KIP-339)."""

from typing import Any

from kafkad.core.controller.admin import alter_configs
from kafkad.core.controller.configs import Alteration, AlterEntry, AlterOperation, AlterResult
from kafkad.core.request_context import RequestContext
from kafkad.handlers.controller.requests.controller_view import ControllerView, Response, ResponseAfter
from kafkad.wire.kio_codec import Codec, codec

APPLY_TIMEOUT_MS = 30_000
"""These requests have no timeout; clients wait for `request.timeout.ms`, 30 s by default."""


def handle(body: memoryview, context: RequestContext, view: ControllerView) -> Response:
    messages = codec("alter_configs", context.version)
    request = messages.decode(body)
    alterations = [
        Alteration(
            resource.resource_type,
            resource.resource_name,
            tuple(AlterEntry(each.name, AlterOperation.SET, each.value) for each in resource.configs),
        )
        for resource in request.resources
    ]
    results = alter_configs(
        view.controller,
        alterations,
        view.configs,
        incremental=False,
        validate_only=request.validate_only,
    )
    return response(messages, request, results, view)


def response(messages: Codec, request: Any, results: list[AlterResult], view: ControllerView) -> Response:
    """The response to AlterConfigs or IncrementalAlterConfigs, with the results in the order of the request."""
    body = messages.encode(
        responses=tuple(
            messages.part(
                "AlterConfigsResourceResponse",
                error_code=result.code,
                error_message=result.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource, result in zip(request.resources, results, strict=True)
        )
    )
    if request.validate_only or all(result.code for result in results):
        return body
    return ResponseAfter(body=body, timeout_ms=APPLY_TIMEOUT_MS)
