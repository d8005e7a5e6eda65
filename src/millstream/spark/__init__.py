"""The data pipeline: topics as a source and a sink of Spark."""
