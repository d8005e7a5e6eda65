"""The controller's rules: who leads, where replicas are placed, and what is written about it."""
