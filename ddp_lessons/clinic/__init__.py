"""The files that six jobs left behind when they hung or died: call `clinic.case(1)`, then `check.diagnosis`."""

from ddp_lessons.clinic.clinic_cases import CaseFiles as CaseFiles, case as case

__all__ = ["CaseFiles", "case"]
