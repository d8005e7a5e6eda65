"""`partition.metadata`: to which topic, by id, the directory belongs.

    version: 0
    topic_id: pIyqLJ8xTRqQoZ0jBOSLWg        the 16 bytes in URL-safe base64 without padding, as Kafka prints ids

A topic that was deleted and created again has the same name and another id; the id on disk tells the two apart.
"""

import base64
import uuid
from pathlib import Path

from millstream.files import Files

FILE_NAME = "partition.metadata"


def id_to_text(identifier: uuid.UUID) -> str:
    """The id as Kafka prints it."""
    return base64.urlsafe_b64encode(identifier.bytes).rstrip(b"=").decode()


def id_from_text(text: str) -> uuid.UUID:
    """The id from Kafka's text; ValueError if it is none."""
    return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))


def render(topic_id: uuid.UUID) -> bytes:
    """The content of the file."""
    return f"version: 0\ntopic_id: {id_to_text(topic_id)}\n".encode()


def read_topic_id(files: Files, directory: Path) -> uuid.UUID | None:
    """The topic id on disk; None when the file is missing or was not completely written before a crash."""
    try:
        lines = files.read_bytes(directory / FILE_NAME).decode().splitlines()
        fields = dict(line.split(": ", 1) for line in lines)
        return id_from_text(fields["topic_id"]) if fields["version"] == "0" else None
    except (FileNotFoundError, ValueError, KeyError):
        return None
