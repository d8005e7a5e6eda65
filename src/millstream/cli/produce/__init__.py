"""`millstream produce`: `command` has the flags, the others what lines become and where they come from."""
