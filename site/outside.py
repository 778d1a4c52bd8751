"""Is there a network? Without one, external links can't be tested, which is not an error."""

from __future__ import annotations

import sys
import urllib.error
import urllib.request

LINKED_OFTEN = "https://docs.pytorch.org/"


def main() -> int:
    try:
        urllib.request.urlopen(LINKED_OFTEN, timeout=10).close()
    except urllib.error.HTTPError:
        return 0  # a server answered
    except (OSError, urllib.error.URLError) as error:
        print(f"No link to the outside was tried: {LINKED_OFTEN} cannot be reached from here ({error}).")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
