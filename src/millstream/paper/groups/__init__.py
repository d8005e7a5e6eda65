"""The paper's groups: members, owners and rebalances over ZooKeeper, without a master."""
