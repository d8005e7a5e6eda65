"""Avro's rules, pure: what a schema is, how it is read and written, and which schema can read what another one wrote."""
