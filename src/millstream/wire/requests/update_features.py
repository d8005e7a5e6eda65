"""UpdateFeaturesRequest (key 57), versions 0 to 2. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class FeatureUpdateKey(NamedTuple):
    """A part of it."""

    feature: str = ""
    max_version_level: int = 0
    upgrade_type: int = 1
    allow_downgrade: bool = False


FEATURE_UPDATE_KEY: Final = Layout(
    FeatureUpdateKey,
    (
        Field("feature", "string", 0, 2),
        Field("max_version_level", "int16", 0, 2),
        Field("upgrade_type", "int8", 1, 2, default=1),
        Field("allow_downgrade", "bool", 0, 0),
    ),
)


class UpdateFeaturesRequest(NamedTuple):
    """The message."""

    timeout_ms: int = 60000
    feature_updates: tuple[FeatureUpdateKey, ...] = ()
    validate_only: bool = False


LAYOUT: Final = Layout(
    UpdateFeaturesRequest,
    (
        Field("timeout_ms", "timedelta_i32", 0, 2, default=60000),
        Field("feature_updates", STRUCTURE, 0, 2, is_array=True, nested=FEATURE_UPDATE_KEY),
        Field("validate_only", "bool", 1, 2, default=False),
    ),
)
