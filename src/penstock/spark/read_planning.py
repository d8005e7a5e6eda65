"""Making the plan of a read: what has to be looked up once, before the first row."""

from penstock.spark.options import ReadOptions
from penstock.spark.read_plan import FieldPlan, ReadPlan


def make_plan(options: ReadOptions) -> ReadPlan:
    """The plan of a read with these options."""
    return ReadPlan(FieldPlan(options.key), FieldPlan(options.value), options.mode, options.registry)
