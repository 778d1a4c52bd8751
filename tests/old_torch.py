"""What torch before 2.12 lacks."""

from __future__ import annotations

import torch

HAS_ALL_TO_ALL = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 12)  # gloo, for lists of tensors
