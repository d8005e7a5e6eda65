"""Routes under `/config`, `/mode`, `/contexts` and `/v1/metadata`."""

from importlib.metadata import version

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from millstream.registry.api.desk import Desk
from millstream.registry.api.http import answer, body_of, decoded, flag, json_object, page, subject_in_path
from millstream.registry.forwarding import INSTANCE_HEADER
from millstream.registry.model.deletion import decide_context_deletion
from millstream.registry.model.settings import config_of, decide_config, decide_config_removal, decide_mode, decide_mode_removal, mode_of


class SettingRoutes:
    """The handlers; a path without a subject means the global setting."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def routes(self) -> list[Route]:
        """What is answered under `/config`, `/mode`, `/contexts` and `/v1/metadata`."""
        handlers = {
            "/config": (self.config, self.set_config, self.delete_config),
            "/mode": (self.mode, self.set_mode, self.delete_mode),
        }
        routes = [
            Route(path + suffix, handler, methods=[method])
            for path, three in handlers.items()
            for suffix in ("", "/{subject}")
            for method, handler in zip(("GET", "PUT", "DELETE"), three, strict=True)
        ]
        return [
            *routes,
            Route("/contexts", self.contexts),
            Route("/contexts/{context}", self.delete_context, methods=["DELETE"]),
            Route("/v1/metadata/id", self.cluster),
            Route("/v1/metadata/version", self.server_version),
            Route("/", self.root),
        ]

    async def config(self, request: Request) -> Response:
        """The config of a place."""
        await self._desk.ready()
        return answer(request, config_of(self._desk.state, _place(request), default_to_global=flag(request, "defaultToGlobal")))

    async def set_config(self, request: Request) -> Response:
        """Change the config of a place."""
        place, body = _place(request), await body_of(request)
        document = json_object(body)
        return await self._desk.write(request, lambda: decide_config(self._desk.state, place, document), body=body)

    async def delete_config(self, request: Request) -> Response:
        """Let the next wider config hold again."""
        place = _place(request)
        return await self._desk.write(request, lambda: decide_config_removal(self._desk.state, place))

    async def mode(self, request: Request) -> Response:
        """The mode of a place."""
        await self._desk.ready()
        return answer(request, {"mode": mode_of(self._desk.state, _place(request), default_to_global=flag(request, "defaultToGlobal"))})

    async def set_mode(self, request: Request) -> Response:
        """Change the mode of a place."""
        place, body, force = _place(request), await body_of(request), flag(request, "force")
        document = json_object(body)
        return await self._desk.write(request, lambda: decide_mode(self._desk.state, place, document, force=force), body=body)

    async def delete_mode(self, request: Request) -> Response:
        """Let the next wider mode hold again."""
        place, is_recursive = _place(request), flag(request, "recursive")
        return await self._desk.write(request, lambda: decide_mode_removal(self._desk.state, place, is_recursive=is_recursive))

    async def contexts(self, request: Request) -> Response:
        """The names of the contexts."""
        await self._desk.ready()
        prefix = request.query_params.get("contextPrefix", "")
        return answer(request, page(request, [name for name in self._desk.state.contexts if name.startswith(prefix)]))

    async def delete_context(self, request: Request) -> Response:
        """Forget an empty context."""
        name = decoded(request.path_params["context"])
        return await self._desk.write(request, lambda: decide_context_deletion(self._desk.state, name))

    async def cluster(self, request: Request) -> Response:
        """Which Kafka this registry belongs to."""
        await self._desk.ready()
        clusters = {"kafka-cluster": self._desk.log.cluster_id, "schema-registry-cluster": "schema-registry"}
        return answer(request, {"id": "", "scope": {"path": [], "clusters": clusters}})

    async def server_version(self, request: Request) -> Response:
        """The version of Millstream."""
        return answer(request, {"version": version("millstream"), "commitId": ""})

    async def root(self, request: Request) -> Response:
        """Nothing, to whoever only asks whether a registry is there."""
        return answer(request, {}, headers={INSTANCE_HEADER: self._desk.writer.instance})


def _place(request: Request) -> str | None:
    return subject_in_path(request) if "subject" in request.path_params else None
