from typing import Any, cast

import pytest

from millstream.client.codecs.request import MessageRequest
from millstream.errors import InvalidConfig, KafkaError, NotController, RequestTimedOut, UnknownTopicOrPartition
from millstream.mirror.clusters.side import Side
from millstream.mirror.clusters.topic_admin import set_options
from millstream.wire.responses.incremental_alter_configs import AlterConfigsResourceResponse, IncrementalAlterConfigsResponse


class PickyCluster:
    """Refuses a request with an option that it does not know, as a whole."""

    def __init__(self, *unknown: str, error_code: int = InvalidConfig.code) -> None:
        self.unknown = set(unknown)
        self.error_code = error_code
        self.options: dict[str, str | None] = {}

    async def ask(self, request: MessageRequest[Any]) -> IncrementalAlterConfigsResponse:
        [resource] = cast("list[Any]", request.fields["resources"])
        wanted = {config["name"]: config["value"] for config in resource["configs"]}
        refused = sorted(self.unknown & wanted.keys())
        if not refused:
            self.options |= wanted
        answer = AlterConfigsResourceResponse(self.error_code if refused else 0, f"unknown: {refused}", 2, resource["resource_name"])
        return IncrementalAlterConfigsResponse(0, (answer,))


async def test_options_that_the_target_refuses_keep_no_other_from_being_set() -> None:
    cluster = PickyCluster("colour", "size")
    changes = {"retention.ms": "5", "colour": "red", "flush.ms": None, "size": "9"}
    refused = await set_options(cast("Side", cluster), "orders", changes)
    assert refused == {"colour": "unknown: ['colour']", "size": "unknown: ['size']"}
    assert cluster.options == {"retention.ms": "5", "flush.ms": None}


@pytest.mark.parametrize("error", [NotController, RequestTimedOut, UnknownTopicOrPartition])
async def test_an_error_that_may_pass_is_no_refusal_of_an_option(error: type[KafkaError]) -> None:
    cluster = PickyCluster("retention.ms", error_code=error.code)
    with pytest.raises(error):
        await set_options(cast("Side", cluster), "orders", {"retention.ms": "5", "flush.ms": "9"})


async def test_what_is_refused_by_none_is_set_at_once() -> None:
    cluster = PickyCluster()
    assert await set_options(cast("Side", cluster), "orders", {"retention.ms": "5"}) == {}
    assert cluster.options == {"retention.ms": "5"}
