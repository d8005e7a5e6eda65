"""Windows and joins: streams computed from topics."""
