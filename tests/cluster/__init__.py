"""Tests with several processes: the coordination contract, real ZooKeeper, later several brokers."""
