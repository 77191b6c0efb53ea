"""The report of a run: one self-contained page that shows what the tables of a corpus hold."""

from worldloom.report.agreement import confusion, yaw_agreement
from worldloom.report.page import write_report

__all__ = ["confusion", "write_report", "yaw_agreement"]
