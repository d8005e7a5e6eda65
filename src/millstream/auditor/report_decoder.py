"""Bytes of `_audit` to reports, in both encodings: JSON, and Avro with the id of a schema in front, where a registry is given.

Two things can be wrong, and are two kinds of errors: what is no report, whoever reads it and whenever (ValueError); and a registry that
does not answer, or does not let us in, of which nothing follows about the report (`RegistryError`). What the registry says that does not
exist is no report.
"""

from typing import TYPE_CHECKING, Any, Final, Self

from millstream.audit.reports.report import Report
from millstream.audit.reports.report_fields import report_of
from millstream.audit.reports.report_json import decode_report
from millstream.json_object import JsonObject
from millstream.registry.errors import RegistryError, SerializationFailed

if TYPE_CHECKING:
    from millstream.registry.avro_deserializer import AvroDeserializer
    from millstream.registry.client import RegistryClient

TIMEOUT_S: Final = 5.0
_NOT_FOUND: Final = 404


class ReportDecoder:
    """Decodes reports; a ValueError says what is wrong with one, a RegistryError that it cannot be known at the moment."""

    def __init__(self, registry: str | None = None) -> None:
        self._registry = registry
        self._client: RegistryClient | None = None
        self._deserializer: AvroDeserializer | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection to the registry, if there is one."""
        if self._client is not None:
            self._client.close()

    def decode(self, data: bytes | None) -> Report:
        """The report in these bytes."""
        if not data:
            raise ValueError("the message is empty")
        return decode_report(data) if data[0] else self._decode_avro(data)

    def _decode_avro(self, data: bytes) -> Report:
        if self._registry is None:
            raise ValueError("the report is in Avro: name the schema registry with --registry URL")
        try:
            fields: Any = self._avro()(data)
        except SerializationFailed as error:
            raise ValueError(f"the report is in Avro and cannot be read: {error}") from None
        except RegistryError as error:
            if error.status != _NOT_FOUND:
                raise
            raise ValueError(f"the report is in Avro and cannot be read: {error}") from None
        if not isinstance(fields, dict):
            raise ValueError("the report is in Avro, and no record")  # noqa: TRY004 -- a wrong value, not a mistake in the program
        return report_of(JsonObject(fields))

    def _avro(self) -> "AvroDeserializer":
        if self._deserializer is None:
            from millstream.registry.avro_deserializer import AvroDeserializer
            from millstream.registry.client import RegistryClient

            # Whoever decodes asks again later, and has other things to do meanwhile.
            self._client = RegistryClient(self._registry or "", timeout_s=TIMEOUT_S, retries=0)
            self._deserializer = AvroDeserializer(self._client)
        return self._deserializer
