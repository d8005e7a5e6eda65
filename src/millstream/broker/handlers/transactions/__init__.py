"""Transactions and producer ids, for clients, operators and other brokers."""
