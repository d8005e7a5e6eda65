"""A real ZooKeeper ensemble, through kazoo."""
