"""The demo: what it generates, expects and checks, and the demo itself, shortened."""
