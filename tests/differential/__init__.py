"""The same random requests to Millstream and to Apache Kafka 4.2, and every field of the answers compared."""
