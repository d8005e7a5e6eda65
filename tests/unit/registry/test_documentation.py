"""Every route is in docs/registry.md, and nothing else is."""

import re
from pathlib import Path
from typing import Any, cast

from millstream.registry.api.schemas import SchemaRoutes
from millstream.registry.api.settings import SettingRoutes
from millstream.registry.api.subjects import SubjectRoutes

PAGE = Path(__file__).parents[3] / "docs" / "registry.md"


def test_every_route_is_documented() -> None:
    no_desk = cast("Any", None)
    families = (SchemaRoutes(no_desk), SubjectRoutes(no_desk), SettingRoutes(no_desk))
    routes = {
        f"{method} {route.path}" for family in families for route in family.routes() for method in (route.methods or ()) if method != "HEAD"
    }
    documented = set(re.findall(r"`((?:GET|PUT|POST|DELETE) /[^`]*)`", PAGE.read_text()))
    assert documented == routes
