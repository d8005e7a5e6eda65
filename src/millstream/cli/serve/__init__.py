"""`millstream serve`: a broker, or one per core, from the command line and its files."""
