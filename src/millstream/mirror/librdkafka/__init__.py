"""What the mirror does with clients of librdkafka (confluent-kafka): groups, offsets of groups, and merging record by record."""
