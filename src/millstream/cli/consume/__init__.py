"""`millstream consume`: `command` has the flags, the others what is done with each record."""
