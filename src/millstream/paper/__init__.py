"""The client of the paper: producer, consumer with message streams, groups over ZooKeeper without a master (start with `consumer`)."""
