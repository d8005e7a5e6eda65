"""Which partitions a process copies where several share the work."""
