"""Units of the jobs, without Spark."""
