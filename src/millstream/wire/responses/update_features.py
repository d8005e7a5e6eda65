"""UpdateFeaturesResponse (key 57), versions 0 to 2. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class UpdatableFeatureResult(NamedTuple):
    """A part of it."""

    feature: str = ""
    error_code: int = 0
    error_message: str | None = ""


UPDATABLE_FEATURE_RESULT: Final = Layout(
    UpdatableFeatureResult,
    (
        Field("feature", "string", 0, 1),
        Field("error_code", "error_code", 0, 1, default=0),
        Field("error_message", "string", 0, 1, nullable_from=0),
    ),
)


class UpdateFeaturesResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    results: tuple[UpdatableFeatureResult, ...] = ()


LAYOUT: Final = Layout(
    UpdateFeaturesResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 0, 2, default=0),
        Field("error_code", "error_code", 0, 2, default=0),
        Field("error_message", "string", 0, 2, nullable_from=0),
        Field("results", STRUCTURE, 0, 1, is_array=True, nested=UPDATABLE_FEATURE_RESULT),
    ),
)
