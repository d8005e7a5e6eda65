"""What operators ask of brokers: topics, options, disks, reassignments, transactions."""
