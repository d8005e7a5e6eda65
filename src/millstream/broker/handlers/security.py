"""DescribeAcls (29), CreateAcls (30), DeleteAcls (31), DescribeClientQuotas (48), DescribeUserScramCredentials (50): there is nothing set.

Acls 1-3. 1: pattern types (KIP-290). 2: flexible. 3: users as a resource (KIP-373). Without an authorizer Kafka answers SECURITY_DISABLED:
one error for the description, one for every rule to create and for every filter of a deletion. So does this broker.
DescribeClientQuotas 0-1. 1: flexible. DescribeUserScramCredentials 0. There are neither quotas nor users with passwords; a question that
makes no sense is refused as Kafka refuses it.
"""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from millstream.admin_errors import DuplicateResource, ResourceNotFound, SecurityDisabled
from millstream.broker.failures import error_fields
from millstream.broker.network.api import Fields, Request, api
from millstream.errors import InvalidRequest, KafkaError, UnsupportedVersion
from millstream.wire.api import ApiKey

if TYPE_CHECKING:
    from millstream.wire.requests.create_acls import CreateAclsRequest
    from millstream.wire.requests.delete_acls import DeleteAclsRequest
    from millstream.wire.requests.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
    from millstream.wire.requests.describe_user_scram_credentials import DescribeUserScramCredentialsRequest

USER, CLIENT_ID, IP = "user", "client-id", "ip"
EXACT, DEFAULT, ANY = 0, 1, 2
_DISABLED = error_fields(SecurityDisabled("no authorizer is configured on the broker: everybody may do everything"))
_NOTHING_WRONG = {"error_code": 0, "error_message": ""}
"""Kafka has an empty text here and not null."""


class SecurityFamily:
    """Says that there are no access rules, no quotas and no users."""

    @api(ApiKey.DESCRIBE_ACLS, 1, 3)
    def describe_acls(self, request: Request) -> Fields:
        """Without access rules: SECURITY_DISABLED."""
        request.decode()
        return {**_DISABLED, "resources": []}

    @api(ApiKey.CREATE_ACLS, 1, 3)
    def create_acls(self, request: Request) -> Fields:
        """Without access rules: SECURITY_DISABLED for each."""
        message: CreateAclsRequest = request.decode()
        return {"results": [_DISABLED for _ in message.creations]}

    @api(ApiKey.DELETE_ACLS, 1, 3)
    def delete_acls(self, request: Request) -> Fields:
        """Without access rules: SECURITY_DISABLED for each filter."""
        message: DeleteAclsRequest = request.decode()
        return {"filter_results": [{**_DISABLED, "matching_acls": []} for _ in message.filters]}

    @api(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1)
    def describe_client_quotas(self, request: Request) -> Fields:
        """The quotas that match a filter: none."""
        message: DescribeClientQuotasRequest = request.decode()
        try:
            _check_filter(message.components)
        except KafkaError as error:
            return {**error_fields(error), "entries": None}
        return {**_NOTHING_WRONG, "entries": []}

    @api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0)
    def describe_user_scram_credentials(self, request: Request) -> Fields:
        """The users with SCRAM passwords: none; each one who is named does not exist."""
        message: DescribeUserScramCredentialsRequest = request.decode()
        named = Counter(user.name for user in message.users or ())
        results = [{"user": name, **error_fields(_no_credential(name, count)), "credential_infos": []} for name, count in named.items()]
        return {**_NOTHING_WRONG, "results": results}


def _check_filter(components: "Sequence[ComponentData]") -> None:
    seen: set[str] = set()
    for component in components:
        kind = component.entity_type
        if not kind:
            raise InvalidRequest("quotas are asked for by kinds of clients, and one of them has no name")
        if kind not in (USER, CLIENT_ID, IP):
            raise UnsupportedVersion(f"quotas are for {USER}, {CLIENT_ID} and {IP}, not for {kind!r}")
        if kind in seen:
            raise InvalidRequest(f"{kind} appears twice in the filter")
        seen.add(kind)
        if component.match_type not in (EXACT, DEFAULT, ANY):
            raise InvalidRequest(f"unknown match type {component.match_type}")
        if (component.match is None) is (component.match_type == EXACT):
            raise InvalidRequest("a name is given where, and only where, exactly that name is looked for (match type 0)")
    if IP in seen and len(seen) > 1:
        raise InvalidRequest(f"{IP} cannot be combined with {USER} or {CLIENT_ID} in a filter")


def _no_credential(name: str, count: int) -> KafkaError:
    if count > 1:
        return DuplicateResource(f"user {name!r} is named {count} times in the request")
    return ResourceNotFound(f"user {name!r} has no SCRAM credentials: this broker has no users")
