"""Followers: what this broker copies from the leaders of its partitions, and what it tells the controller as a leader of its own."""
