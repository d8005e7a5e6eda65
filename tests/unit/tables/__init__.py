"""Topics as tables: what is decided without a broker."""
