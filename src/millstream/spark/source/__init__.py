"""Topics as rows of Spark."""
