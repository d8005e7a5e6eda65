"""The commands of `millstream pipeline`, up to where Spark would start."""
