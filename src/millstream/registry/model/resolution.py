"""From what is stored to what can be compared: schemas parsed together with everything they refer to.

References are followed depth first, each version is read once, and the number of schemas is bounded; a reference that leads nowhere is an
`InvalidSchema` that names it. Parsed schemas are kept, the last ones of `KEPT_CHARACTERS` in all: comparing a new version with all earlier
ones reads each text once.
"""

from collections import OrderedDict
from typing import Final

from millstream.avro.parser import ParsedSchema, SchemaError, parse_schema
from millstream.registry.errors import InvalidSchema
from millstream.registry.model.records import Content, Reference
from millstream.registry.model.state import RegistryState
from millstream.registry.model.subjects import context_of, qualified

KEPT_CHARACTERS: Final = 4_000_000
MAX_REFERENCED: Final = 500


class SchemaReader:
    """Parses schemas of one state."""

    def __init__(self, state: RegistryState) -> None:
        self._state = state
        self._kept: OrderedDict[tuple[Content, str], ParsedSchema] = OrderedDict()
        self._kept_characters = 0

    def parse(self, content: Content, subject: str, *, is_strict: bool = False) -> ParsedSchema:
        """The schema, with its references looked up from `subject`."""
        if content.schema_type != "AVRO":
            raise InvalidSchema(f"Invalid schema type {content.schema_type}: this registry knows AVRO alone.")
        key = (content, context_of(subject))
        found = None if is_strict else self._kept.get(key)
        if found is None:
            texts = self._referenced_texts(content.references, subject)
            try:
                found = parse_schema(content.text, references=texts, is_strict=is_strict)
            except SchemaError as error:
                raise InvalidSchema(f"Invalid schema of type AVRO, details: {error}") from error
            self._keep(key, found)
        else:
            self._kept.move_to_end(key)
        return found

    def _keep(self, key: tuple[Content, str], parsed: ParsedSchema) -> None:
        if key not in self._kept:
            self._kept_characters += len(key[0].text)
        self._kept[key] = parsed
        while self._kept_characters > KEPT_CHARACTERS and len(self._kept) > 1:
            (content, _), _ = self._kept.popitem(last=False)
            self._kept_characters -= len(content.text)

    def _referenced_texts(self, references: tuple[Reference, ...], subject: str) -> list[str]:
        texts: list[str] = []
        seen: set[tuple[str, int]] = set()
        # Depth first with a stack of our own; a version's text follows those that it refers to.
        stack: list[tuple[Reference, str] | str] = [(reference, subject) for reference in reversed(references)]
        while stack:
            step = stack.pop()
            if isinstance(step, str):
                texts.append(step)
                continue
            reference, parent = step
            place = (qualified(reference.subject, parent), reference.version)
            if place in seen:
                continue
            seen.add(place)
            if len(seen) > MAX_REFERENCED:
                raise InvalidSchema(f"Invalid schema of type AVRO, details: it refers to more than {MAX_REFERENCED} other schemas")
            stored = self._state.version(*place)
            if stored is None:
                where = f"subject {reference.subject!r}, version {reference.version}"
                raise InvalidSchema(f"Invalid schema of type AVRO, details: no schema found for the reference {reference.name!r} ({where})")
            stack.append(stored.content.text)
            stack += [(one, stored.subject) for one in reversed(stored.content.references)]
        return texts
