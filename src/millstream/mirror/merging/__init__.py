"""Records merged into ordinary topics of any Kafka, one by one and with offsets of their own."""
