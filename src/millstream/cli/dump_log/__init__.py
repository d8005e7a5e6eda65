"""`millstream dump-log`: segments of a log as text."""
