"""Paths that begin with a context: `/contexts/.staging/subjects/clicks` is another way to write `/subjects/:.staging:clicks`.

A client that knows nothing about contexts works in one when its base address ends in `/contexts/NAME`.
"""

from urllib.parse import quote, unquote

SUBJECT_FOLLOWS = {"subjects", "config", "mode"}
FAMILIES = {"subjects", "schemas", "config", "mode", "compatibility"}


def without_context(path: str, query: str) -> tuple[str, str]:
    """Path and query (both percent-encoded) with the context moved into the names of subjects."""
    segments = path.strip("/").split("/")
    if len(segments) < 3 or segments[0] != "contexts" or segments[2] not in FAMILIES:
        return path, query
    name = unquote(segments[1]).strip(":")
    prefix = quote(f":{name if name.startswith('.') else '.' + name}:", safe="")
    rest = segments[2:]
    place = next((index for index, segment in enumerate(rest) if segment in SUBJECT_FOLLOWS), None)
    if place is not None and place + 1 < len(rest):
        if not unquote(rest[place + 1]).startswith(":."):
            rest[place + 1] = prefix + rest[place + 1]
    elif rest[0] in ("config", "mode"):
        rest.append(prefix)
    elif rest[0] == "schemas" and len(rest) > 1:
        query = _with(query, "subject", prefix)
    else:
        query = _with(query, "subjectPrefix", prefix)
    return "/" + "/".join(rest), query


def _with(query: str, name: str, prefix: str) -> str:
    """The query with a parameter that is qualified, or added."""
    parts = [part for part in query.split("&") if part]
    for index, part in enumerate(parts):
        key, _, value = part.partition("=")
        if key == name and not unquote(value).startswith(":."):
            parts[index] = f"{key}={prefix}{value}"
            return "&".join(parts)
        if key == name:
            return query
    return "&".join([*parts, f"{name}={prefix}"])
