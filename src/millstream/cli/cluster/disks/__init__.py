"""`millstream cluster disks`: the data directories of brokers, and moves between them."""
