"""Tables in a lake: typed Parquet files by event date and hour, and the commits that make them rows of a table. Without Spark."""
