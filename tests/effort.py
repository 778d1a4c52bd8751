"""How much is tried: by `make test` what every change has to pass, by `make test-all` each case and seed there is."""

import os

EVERYTHING = os.environ.get("DDP_LESSONS_TESTS") == "all"
