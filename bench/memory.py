"""Resident memory of the broker after everything before it in the run; so it comes last of the cases that share a broker."""

from pathlib import Path

from bench.case import Bar, Case, Context, Metric, Values


class Memory(Case):
    """What the broker holds when the load is over, and the most it ever held."""

    name = "memory"
    title = "memory after the run"
    max_rounds = 1
    metrics = (Metric("resident", "MB", Bar(80.0, "at most", "value")), Metric("peak", "MB"))

    def run(self, context: Context) -> Values:
        status = Path(f"/proc/{context.broker.pid}/status").read_text()
        peak_kb = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))
        return {"resident": context.broker.resident_bytes() / 1e6, "peak": peak_kb * 1024 / 1e6}
