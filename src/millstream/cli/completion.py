"""Names of topics, groups and transactional ids for the Tab key, from the brokers that the command line so far means.

A shell waits for the answer, so there is one second for everything, and no answer is no names: whatever is wrong will be said in a sentence
when the command runs. Nothing but our own client is loaded.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

import typer

if TYPE_CHECKING:
    from millstream.client.cluster import Cluster
    from millstream.wire.responses.list_groups import ListGroupsResponse

ANSWER_S: Final = 1.0


def complete_topic(ctx: typer.Context, incomplete: str) -> list[str]:
    """Topics that begin with what was typed; internal ones only if that begins with an underscore."""
    return _matching(_ask(ctx, lambda cluster: cluster.refresh(None).topics), incomplete)


def complete_group(ctx: typer.Context, incomplete: str) -> list[str]:
    """Groups that begin with what was typed."""
    return _matching(_ask(ctx, _groups), incomplete)


def complete_transactional_id(ctx: typer.Context, incomplete: str) -> list[str]:
    """Transactional ids that begin with what was typed."""
    return _matching(_ask(ctx, _transactional_ids), incomplete)


def _matching(names: Iterable[str], incomplete: str) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete) and (incomplete or not name.startswith("__")))


def _ask(ctx: typer.Context, question: "Callable[[Cluster], Iterable[str]]") -> Sequence[str]:
    """The answer, if it comes within a second: a thread that waits longer does not keep the process alive."""
    found: list[str] = []
    asking = threading.Thread(target=_answer, args=(ctx.params, question, found), daemon=True)
    asking.start()
    asking.join(ANSWER_S)
    return found.copy()


def _answer(parameters: dict[str, object], question: "Callable[[Cluster], Iterable[str]]", found: list[str]) -> None:
    from millstream.cli.properties import parse_assignments
    from millstream.client.cluster import Cluster
    from millstream.client.security.client_security import ClientSecurity
    from millstream.errors import MillstreamError

    brokers, options = parameters.get("brokers"), parameters.get("client_options")
    try:
        security = ClientSecurity.of(parse_assignments(options if isinstance(options, list | tuple) else []))
        with Cluster(str(brokers or "127.0.0.1:9092"), timeout_s=ANSWER_S, security=security) as cluster:
            found.extend(question(cluster))
    except (MillstreamError, OSError):
        return


def _groups(cluster: "Cluster") -> list[str]:
    from millstream.client.codecs.request import MessageRequest
    from millstream.wire.api import ApiKey

    request: MessageRequest[ListGroupsResponse] = MessageRequest(ApiKey.LIST_GROUPS, {}, highest=4)
    answers = [cluster.connection(broker).call(request) for broker in cluster.refresh([]).brokers]
    return [group.group_id for answer in answers for group in answer.groups]


def _transactional_ids(cluster: "Cluster") -> list[str]:
    from millstream.client.admin.transaction_admin import TransactionAdmin

    return [one.transactional_id for one in TransactionAdmin(cluster, timeout_s=ANSWER_S).all()]
