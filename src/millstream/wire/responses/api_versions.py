"""ApiVersionsResponse (key 18), versions 0 to 4. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class ApiVersion(NamedTuple):
    """A part of it."""

    api_key: int = 0
    min_version: int = 0
    max_version: int = 0


API_VERSION: Final = Layout(
    ApiVersion,
    (
        Field("api_key", "int16", 0, 4),
        Field("min_version", "int16", 0, 4),
        Field("max_version", "int16", 0, 4),
    ),
)


class SupportedFeatureKey(NamedTuple):
    """A part of it."""

    name: str = ""
    min_version: int = 0
    max_version: int = 0


SUPPORTED_FEATURE_KEY: Final = Layout(
    SupportedFeatureKey,
    (
        Field("name", "string", 3, 4),
        Field("min_version", "int16", 3, 4),
        Field("max_version", "int16", 3, 4),
    ),
)


class FinalizedFeatureKey(NamedTuple):
    """A part of it."""

    name: str = ""
    max_version_level: int = 0
    min_version_level: int = 0


FINALIZED_FEATURE_KEY: Final = Layout(
    FinalizedFeatureKey,
    (
        Field("name", "string", 3, 4),
        Field("max_version_level", "int16", 3, 4),
        Field("min_version_level", "int16", 3, 4),
    ),
)


class ApiVersionsResponse(NamedTuple):
    """The message."""

    error_code: int = 0
    api_keys: tuple[ApiVersion, ...] = ()
    throttle_time_ms: int = 0
    supported_features: tuple[SupportedFeatureKey, ...] = ()
    finalized_features_epoch: int = -1
    finalized_features: tuple[FinalizedFeatureKey, ...] = ()
    zk_migration_ready: bool = False


LAYOUT: Final = Layout(
    ApiVersionsResponse,
    (
        Field("error_code", "error_code", 0, 4, default=0),
        Field("api_keys", STRUCTURE, 0, 4, is_array=True, nested=API_VERSION),
        Field("throttle_time_ms", "timedelta_i32", 1, 4, default=0),
        Field("supported_features", STRUCTURE, 3, 4, default=(), is_array=True, tag=0, nested=SUPPORTED_FEATURE_KEY),
        Field("finalized_features_epoch", "int64", 3, 4, default=-1, tag=1),
        Field("finalized_features", STRUCTURE, 3, 4, default=(), is_array=True, tag=2, nested=FINALIZED_FEATURE_KEY),
        Field("zk_migration_ready", "bool", 3, 4, default=False, tag=3),
    ),
)
