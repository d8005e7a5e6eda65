"""Topics as tables, without Spark: a real broker, a real registry, and the libraries that take Arrow."""
