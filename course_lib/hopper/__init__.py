from course_lib.hopper.faults import Fault, Kind
from course_lib.hopper.simulation import Report, simulate

__all__ = ["Fault", "Kind", "Report", "simulate"]
