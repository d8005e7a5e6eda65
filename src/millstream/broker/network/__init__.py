"""Sockets, frames and requests: listener, connection, router."""
