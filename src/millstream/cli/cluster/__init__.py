"""`millstream cluster`: how a cluster is, and what moves its partitions; of Millstream or of any other Kafka from 2.4 on."""
