"""The options of a read."""
