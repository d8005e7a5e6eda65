"""What is left after a crash: killed processes, torn tails, full disks, forgotten writes."""
