"""UpdateFeatures, versions 0 to 2: changes the finalized levels of features, all or none."""

from collections.abc import Sequence

from kafkad.core.controller.features import FeatureUpdate, UpgradeType, updated
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.request_context import RequestContext
from kafkad.handlers.controller.requests.controller_view import ControllerView, Response, ResponseAfter
from kafkad.wire.kio_codec import Codec, codec, milliseconds

_LAST_WITH_RESULTS = 1
_FAILED = "The update failed for all features since the following feature had an error: "


def handle(body: memoryview, context: RequestContext, view: ControllerView) -> Response:
    messages = codec("update_features", context.version)
    request = messages.decode(body)
    updates = [FeatureUpdate(each.feature, each.max_version_level, _type(each)) for each in request.feature_updates]
    controller = view.controller
    try:
        levels = updated(controller.image.features, updates, controller.id)
        unsupporting_brokers = controller.without_support(levels)
        if unsupporting_brokers:
            text = f"brokers {', '.join(map(str, unsupporting_brokers))} do not support these versions of features."
            raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, text)
        if not getattr(request, "validate_only", False) and levels != controller.image.features:
            controller.set_features(levels)
    except KafkaError as error:
        return messages.encode(error_code=error.code, error_message=f"{_FAILED}{error.message}", results=())
    names = [update.name for update in updates] if context.version <= _LAST_WITH_RESULTS else []
    return ResponseAfter(body=_response(messages, names), timeout_ms=milliseconds(request.timeout))


def _type(update: object) -> int:
    """Version 0 has a boolean instead of an upgrade type."""
    if hasattr(update, "upgrade_type"):
        return int(update.upgrade_type)
    return UpgradeType.SAFE_DOWNGRADE if getattr(update, "allow_downgrade", False) else UpgradeType.UPGRADE


def _response(messages: Codec, names: Sequence[str]) -> bytes:
    rows = (
        messages.part("UpdatableFeatureResult", feature=name, error_code=ErrorCode.NONE, error_message="NONE")
        for name in names
    )
    return messages.encode(error_code=ErrorCode.NONE, error_message=None, results=tuple(rows))
