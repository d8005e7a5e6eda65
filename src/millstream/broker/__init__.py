"""The server: listener, connection, router, one handler module per API family, and the composition root."""
