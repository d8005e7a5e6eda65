"""The two clusters of a mirror, and how they are reached: our own connections, topics and their options, clients of librdkafka."""
