"""What happens on the site: page views, clicks and searches, and their Avro schemas.

The key of a message is the event's own id, so an event that is sent twice can be recognised. `at` is when it happened, by the clock of the
site; every message also has `sent_at`, this machine's time when it was sent, which the delay to the table is measured from.
"""

import json
from typing import Any, Final, NamedTuple

PAGE_VIEWS: Final = "page-views"
CLICKS: Final = "clicks"
SEARCHES: Final = "searches"
SITE_TOPICS: Final = (PAGE_VIEWS, CLICKS, SEARCHES)
UNKNOWN_DEVICE: Final = "unknown"
"""The default of the field that the second version of the schema has more."""


class PageView(NamedTuple):
    """A look at a page; `device` is None if it was sent in the first version of the schema, which has no such field."""

    view: str
    page: str
    user: str
    at: int
    device: str | None

    @property
    def topic(self) -> str:
        return PAGE_VIEWS


class Click(NamedTuple):
    """A link that was followed on a page that was viewed."""

    click: str
    view: str
    page: str
    user: str
    link: str
    at: int

    @property
    def topic(self) -> str:
        return CLICKS


class Search(NamedTuple):
    """A search."""

    search: str
    user: str
    words: str
    results: int
    at: int

    @property
    def topic(self) -> str:
        return SEARCHES


Event = PageView | Click | Search


def fields_of(event: Event, *, sent_at: int) -> dict[str, Any]:
    """The event as the fields of its Avro record."""
    fields = {**event._asdict(), "sent_at": sent_at}
    if fields.get("device", "") is None:
        del fields["device"]
    return fields


def _schema(name: str, *fields: tuple[str, object]) -> str:
    moment = {"type": "long", "logicalType": "timestamp-millis"}
    listed = [{"name": field, "type": kind} for field, kind in (*fields, ("at", moment), ("sent_at", moment))]
    return json.dumps({"type": "record", "name": name, "fields": listed})


def _with_device(schema: str) -> str:
    document = json.loads(schema)
    document["fields"].append({"name": "device", "type": "string", "default": UNKNOWN_DEVICE})
    return json.dumps(document)


FIRST_VIEW_SCHEMA: Final = _schema("PageView", ("view", "string"), ("page", "string"), ("user", "string"))
SECOND_VIEW_SCHEMA: Final = _with_device(FIRST_VIEW_SCHEMA)
CLICK_SCHEMA: Final = _schema("Click", ("click", "string"), ("view", "string"), ("page", "string"), ("user", "string"), ("link", "string"))
SEARCH_SCHEMA: Final = _schema("Search", ("search", "string"), ("user", "string"), ("words", "string"), ("results", "int"))
SCHEMAS: Final = {PAGE_VIEWS: FIRST_VIEW_SCHEMA, CLICKS: CLICK_SCHEMA, SEARCHES: SEARCH_SCHEMA}
"""The schema that each topic begins with."""
