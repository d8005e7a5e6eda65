"""A registry without a log: commands are decided and applied at once."""

import json
from typing import Any

from millstream.registry.model.deletion import decide_subject_deletion, decide_version_deletion
from millstream.registry.model.records import LogRecord
from millstream.registry.model.registration import Registrar, read_request
from millstream.registry.model.settings import Decision, decide_config, decide_config_removal, decide_mode, decide_mode_removal
from millstream.registry.model.state import RegistryState


def record_schema(*fields: str, name: str = "R") -> dict[str, Any]:
    """A record with optional fields of these names."""
    return {"type": "record", "name": name, "fields": [{"name": one, "type": ["null", "int"], "default": None} for one in fields]}


class Book:
    """State, registrar, and the records that were written."""

    def __init__(self) -> None:
        self.state = RegistryState()
        self.registrar = Registrar(self.state)
        self.records: list[LogRecord] = []

    def carry_out(self, decision: Decision) -> Any:
        for record in decision.records:
            self.records.append(record)
            assert self.state.apply(record)
        return decision.answer

    def register(self, subject: str, schema: Any, *, normalize: bool = False, **more: Any) -> tuple[int, int]:
        """Id and version."""
        request = read_request({"schema": schema if isinstance(schema, str) else json.dumps(schema), **more})
        answer = self.carry_out(self.registrar.decide_registration(subject, request, normalize=normalize))
        return answer["id"], answer["version"]

    def look_up(self, subject: str, schema: Any, *, normalize: bool = False, include_deleted: bool = False, **more: Any) -> int | None:
        """The version."""
        request = read_request({"schema": json.dumps(schema), **more})
        found = self.registrar.look_up(subject, request, normalize=normalize, include_deleted=include_deleted)
        return None if found is None else found.version

    def delete_version(self, subject: str, number: int, *, permanent: bool = False) -> Any:
        return self.carry_out(decide_version_deletion(self.state, subject, number, permanent=permanent))

    def delete_subject(self, subject: str, *, permanent: bool = False) -> Any:
        return self.carry_out(decide_subject_deletion(self.state, subject, permanent=permanent))

    def set_config(self, subject: str | None, **config: Any) -> Any:
        return self.carry_out(decide_config(self.state, subject, config))

    def delete_config(self, subject: str | None) -> Any:
        return self.carry_out(decide_config_removal(self.state, subject))

    def set_mode(self, subject: str | None, mode: str | None, *, force: bool = False) -> Any:
        return self.carry_out(decide_mode(self.state, subject, {"mode": mode}, force=force))

    def delete_mode(self, subject: str | None, *, is_recursive: bool = False) -> Any:
        return self.carry_out(decide_mode_removal(self.state, subject, is_recursive=is_recursive))
