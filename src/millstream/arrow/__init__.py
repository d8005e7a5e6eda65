"""Topics as tables: raw record batches to Arrow columns and back, in the formats binary, string, Avro and JSON. Needs no Spark."""
