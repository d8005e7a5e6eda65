"""One module per API family, one function per API key."""
