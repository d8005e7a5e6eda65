"""Resident memory of the broker after everything before it in the run; so it comes last of the cases that share a broker."""

from bench.case import Bar, Case, Context, Metric, Values


class Memory(Case):
    """What the broker holds when the load is over, and the most it ever held."""

    name = "memory"
    title = "memory after the run"
    max_rounds = 1
    metrics: tuple[Metric, ...] = (Metric("resident", "MB", Bar(80.0, "at most", "value")), Metric("peak", "MB"))

    def run(self, context: Context) -> Values:
        return {"resident": context.service.resident_bytes() / 1e6, "peak": context.service.peak_resident_bytes() / 1e6}
