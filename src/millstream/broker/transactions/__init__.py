"""What a broker does for transactions beside the coordinator's decisions: markers, and asking whether a partition belongs to one."""
