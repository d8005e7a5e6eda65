"""The auditor: reads reports and logs of any Kafka, keeps what they add up to, and raises alarms."""
