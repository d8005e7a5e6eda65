"""What the commands of `millstream pipeline` need installed, asked for in a sentence before anything is started."""

from importlib.util import find_spec

from millstream.errors import UsageError


def need_extra(extra: str, *modules: str) -> None:
    """Raises `UsageError` unless these modules, which an extra of Millstream brings, are there."""
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        raise UsageError(f"This needs {', '.join(missing)}: pip install '.[{extra}]' in a checkout of Millstream.")
