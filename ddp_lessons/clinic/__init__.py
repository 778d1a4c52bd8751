"""Six jobs that hung or died, as the files that they left behind: `clinic.case(1)`, then `check.diagnosis`."""

from ddp_lessons.clinic.clinic_cases import CaseFiles as CaseFiles, case as case

__all__ = ["CaseFiles", "case"]
