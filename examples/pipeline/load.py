"""Load a topic into a Delta table, as a plain file for spark-submit or Python.

spark-submit examples/pipeline/load.py 127.0.0.1:9092 clicks /data/lake /data/checkpoints/clicks
"""

import sys

from millstream.spark.jobs.load.load import start_load
from millstream.spark.jobs.load.settings import LoadSettings
from millstream.spark.jobs.running.job_session import start_job_session


def main(brokers: str, topic: str, lake: str, checkpoint: str) -> None:
    """Load what is there."""
    settings = LoadSettings(brokers=brokers, topics=(topic,), to=lake, checkpoint=checkpoint, value_format="string", once=True)
    start_load(start_job_session("load"), settings).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
