"""The schema registry as a process, on a real broker."""
