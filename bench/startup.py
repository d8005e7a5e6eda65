"""Start-up: from exec to the first Metadata answer over TCP that names a broker, on an empty (but formatted) directory."""

from bench.case import Bar, Case, Context, Metric, Values


class Startup(Case):
    """A broker of its own, started and stopped once a round, while no other runs."""

    name = "startup"
    title = "start to first Metadata answer"
    isolated = True
    metrics = (
        Metric("time", "s", Bar(0.5, "at most", "value")),
        Metric("memory after start", "MB"),
        Metric("CPU to start", "s"),
        Metric("clean stop", "s"),
    )

    def run(self, context: Context) -> Values:
        broker = context.peer.start(context.directory / f"round-{context.round_number}")
        try:
            cpu = broker.cpu_seconds()
        finally:
            stopped_in = broker.stop()
        return {
            "time": broker.start_seconds,
            "memory after start": broker.resident_bytes_after_start / 1e6,
            "CPU to start": cpu,
            "clean stop": stopped_in,
        }
