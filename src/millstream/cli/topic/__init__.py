"""`millstream topic`: several commands, a file each."""
