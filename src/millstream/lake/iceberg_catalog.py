"""The catalog of Iceberg tables: who knows which metadata file of a table is the current one, and lets one writer at a time replace it.

Without properties it is a file of SQLite beside the tables, `<to>/iceberg-catalog.db`: good for one machine. Any other that pyiceberg knows
is described by its properties (`type=rest`, `uri=...`, `warehouse=...`), and `namespace`, which is ours: where in it the tables are.
"""

import weakref
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NotInstalledError, RESTError
from sqlalchemy.exc import IntegrityError, OperationalError, SQLAlchemyError

from millstream.errors import CommandFailed, UsageError
from millstream.lake.place import normal_address

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

CATALOG_FILE: Final = "iceberg-catalog.db"
DEFAULT_NAMESPACE: Final = "lake"
_NAME: Final = "millstream"
_NAMESPACE: Final = "namespace"
# Two tables of a database, and the namespace.
_THINGS_TO_MAKE: Final = 3


def namespace_of(properties: Mapping[str, str]) -> str:
    """Where in the catalog the tables are."""
    return properties.get(_NAMESPACE, DEFAULT_NAMESPACE)


def open_catalog(to: str, properties: Mapping[str, str]) -> "Catalog":
    """The catalog of the tables in a directory."""
    given = {name: value for name, value in properties.items() if name != _NAMESPACE}
    if not given:
        if "://" in to:
            raise UsageError(f"Iceberg tables at {to} need a catalog that every driver reaches: give it with --catalog type=... and so on.")
        directory = Path(normal_address(to))
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"to {to}: it cannot be a directory to write to: {error.strerror}.") from None
        given = {"type": "sql", "uri": f"sqlite:///{directory / CATALOG_FILE}", "warehouse": str(directory)}
    try:
        catalog = _made_catalog(given, namespace_of(properties))
    except (ValueError, NotInstalledError) as error:
        raise UsageError(f"the catalog of the Iceberg tables cannot be opened: {error}") from None
    except (RESTError, SQLAlchemyError, OSError) as error:
        raise CommandFailed(f"the catalog of the Iceberg tables at {to} does not answer: {error}") from None
    if (engine := getattr(catalog, "engine", None)) is not None:
        # A catalog in a database has a pool of connections, which its readers do not know of: it is closed with its last reader.
        weakref.finalize(catalog, engine.dispose)
    return catalog


def _made_catalog(properties: Mapping[str, str], namespace: str) -> "Catalog":
    """The catalog, with the namespace. Another load may make what it is kept in between our look and our making: the next look finds it."""
    for _ in range(_THINGS_TO_MAKE):
        with suppress(OperationalError, IntegrityError):
            return _catalog_with(properties, namespace)
    return _catalog_with(properties, namespace)


def _catalog_with(properties: Mapping[str, str], namespace: str) -> "Catalog":
    catalog = load_catalog(_NAME, **properties)
    catalog.create_namespace_if_not_exists(namespace)
    return catalog


def table_names(catalog: "Catalog", properties: Mapping[str, str]) -> list[tuple[str, ...]]:
    """The tables of a load, as the catalog knows them."""
    try:
        return sorted(catalog.list_tables(namespace_of(properties)))
    except NoSuchNamespaceError:
        return []
