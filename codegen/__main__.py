"""`python -m codegen`: write the generated modules anew; `--check` only says which are not up to date."""

import sys
from pathlib import Path

from codegen.messages import sources

ROOT = Path(__file__).parent.parent
WIRE = ROOT / "src/millstream/wire"


def main() -> int:
    """Write, or compare, every generated module; files that nothing generates any more are stale."""
    is_check = sys.argv[1:] == ["--check"]
    wanted = dict(sources(WIRE))
    stale = [path for path, source in wanted.items() if not path.exists() or path.read_text() != source]
    left_over = [path for folder in {path.parent for path in wanted} for path in folder.glob("*.py") if path not in wanted]
    for path in [*stale, *left_over]:
        sys.stdout.write(f"{'not up to date' if is_check else 'written'}: {path.relative_to(ROOT)}\n")
    if is_check:
        return bool(stale or left_over)
    for path in stale:
        path.parent.mkdir(exist_ok=True)
        path.write_text(wanted[path])
    for path in left_over:
        path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
