"""Units of the data pipeline, without Spark."""
