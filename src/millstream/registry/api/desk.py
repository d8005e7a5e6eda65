"""What every family of routes works with: the state to read, the registrar to decide, the writer to change."""

from starlette.requests import Request
from starlette.responses import Response

from millstream.registry.api.http import answer, answered_type
from millstream.registry.forwarding import FORWARD_HEADER, INSTANCE_HEADER, OFFSET_HEADER, Answer, Forwarded
from millstream.registry.model.registration import Registrar
from millstream.registry.model.state import RegistryState
from millstream.registry.model.subjects import qualified
from millstream.registry.schema_log import SchemaLog
from millstream.registry.writer import Decide, Writer


class Desk:
    """The parts of a registry, for its handlers."""

    def __init__(self, state: RegistryState, registrar: Registrar, *, log: SchemaLog, writer: Writer) -> None:
        self.state = state
        self.registrar = registrar
        self.log = log
        self.writer = writer

    async def ready(self) -> None:
        """Wait until the state is that of the log; raises if that takes too long."""
        if not self.log.is_caught_up:
            await self.log.caught_up()

    async def write(self, request: Request, decide: Decide, *, body: bytes = b"") -> Response:
        """Carry out a command and answer, by ourselves or by the instance that writes."""
        content_type = answered_type(request)
        path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        headers = request.headers
        was_forwarded = FORWARD_HEADER in headers
        forwarded = Forwarded(request.method, path, body, headers.get("content-type", content_type), was_forwarded)
        outcome = await self.writer.execute(decide, forwarded)
        if isinstance(outcome, Answer):
            return Response(outcome.body, outcome.status, media_type=content_type)
        answered = {OFFSET_HEADER: str(outcome.offset), INSTANCE_HEADER: self.writer.instance}
        if outcome.answer is None:
            return Response(status_code=204, headers=answered)
        return answer(request, outcome.answer, headers=answered)

    def real_subject(self, subject: str) -> str:
        """The subject itself, or the one that its config names as its alias."""
        alias = self.state.configs.get(subject, {}).get("alias")
        return qualified(alias, subject) if alias else subject
