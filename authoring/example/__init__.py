"""The lesson that CONTRIBUTING.md writes, finished: each file goes to where `python -m authoring` wrote its stub."""
