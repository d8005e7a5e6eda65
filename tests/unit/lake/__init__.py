"""Units of the lake, without Spark."""
