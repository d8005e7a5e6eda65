"""An embedded ZooKeeper: tree, journal, sessions, watches, the client protocol. It knows nothing of Kafka (start with `tree`, `keeper`)."""
