"""What writes source files: run by `scripts/check --fix`, compared by `tests/test_project.py`, never part of the distribution."""
