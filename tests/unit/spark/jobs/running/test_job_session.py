import os

from millstream.spark.jobs.running.job_session import job_options, local_cores


def test_cores_of_a_master_of_this_machine_are_known() -> None:
    assert local_cores("local") == 1
    assert local_cores("local[4]") == 4
    assert local_cores("local[2, 3]") == 2
    assert local_cores("local[*]") == os.cpu_count()
    assert local_cores("spark://host:7077") is None


def test_a_job_on_this_machine_binds_to_loopback_and_shuffles_by_its_cores() -> None:
    options = job_options("local[2]")
    assert options["spark.driver.bindAddress"] == "127.0.0.1"
    assert options["spark.sql.shuffle.partitions"] == "2"
    assert "spark.driver.bindAddress" not in job_options("yarn")
