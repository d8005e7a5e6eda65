"""Topics as tables for pandas, Polars, DuckDB and whatever else reads Arrow, from any Kafka. Needs no Spark."""
