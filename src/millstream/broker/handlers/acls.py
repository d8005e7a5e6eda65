"""DescribeAcls (29), CreateAcls (30), DeleteAcls (31): access rules, which this broker does not have.

All 1-3. 1: pattern types (KIP-290). 2: flexible. 3: users as a resource (KIP-373). Without an authorizer Kafka answers SECURITY_DISABLED:
one error for the description, one for every rule to create and for every filter of a deletion. So does this broker.
"""

from typing import TYPE_CHECKING

from millstream.admin_errors import SecurityDisabled
from millstream.broker.failures import error_fields
from millstream.broker.network.api import Fields, Request, api
from millstream.wire.api import ApiKey

if TYPE_CHECKING:
    from millstream.wire.requests.create_acls import CreateAclsRequest
    from millstream.wire.requests.delete_acls import DeleteAclsRequest

_DISABLED = error_fields(SecurityDisabled("no authorizer is configured on the broker: everybody may do everything"))


class AclsFamily:
    """Says that there are no access rules."""

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
