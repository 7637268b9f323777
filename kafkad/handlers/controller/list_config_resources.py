"""ListConfigResources, versions 0 and 1 (KIP-1142): all resources that can have a configuration."""

from collections.abc import Iterable

from kafkad.core.controller.configs import ResourceType
from kafkad.core.controller.image import MetadataImage
from kafkad.core.errors import ErrorCode
from kafkad.core.request_context import RequestContext
from kafkad.handlers.controller.requests.controller_view import ControllerView, Response
from kafkad.wire.kio_codec import codec


def handle(body: memoryview, context: RequestContext, view: ControllerView) -> Response:
    messages = codec("list_config_resources", context.version)
    request = messages.decode(body)
    requested = request.resource_types if context.version > 0 else (ResourceType.CLIENT_METRICS,)
    resource_types = {int(each) for each in ResourceType}
    if not resource_types.issuperset(requested):
        return messages.encode(error_code=ErrorCode.UNSUPPORTED_VERSION, config_resources=())
    image = view.controller.image
    resources = tuple(
        messages.part("ConfigResource", resource_name=name, resource_type=int(resource_type))
        for resource_type in ResourceType
        if not requested or resource_type in requested
        for name in _names(resource_type, image)
    )
    return messages.encode(error_code=ErrorCode.NONE, config_resources=resources)


def _names(resource_type: ResourceType, image: MetadataImage) -> Iterable[str]:
    match resource_type:
        case ResourceType.TOPIC:
            return image.topics
        case ResourceType.BROKER | ResourceType.BROKER_LOGGER:
            return [str(broker) for broker in image.brokers]
        case ResourceType.GROUP:
            return [group_id for group_id, configs in image.group_configs.items() if configs]
        case ResourceType.CLIENT_METRICS:
            return ()
