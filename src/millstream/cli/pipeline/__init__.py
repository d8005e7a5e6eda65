"""`millstream pipeline`: jobs on Spark, one file per command."""
