"""The jobs of the pipeline: real Spark, a real broker, tables that are read back with other tools."""
