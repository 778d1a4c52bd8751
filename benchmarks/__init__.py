"""How fast and how small: ours beside its peers, measured in one run.

python -m benchmarks              launches, first launches, memory, each beside its target
python -m benchmarks.talking      what recording costs, and the ring by hand beside gloo's
python -m benchmarks.standstills  every mistake of the catalogue: how soon it is seen, and whether it is said right
python -m benchmarks.room         thirty kernels of four ranks on one machine
python -m benchmarks.endurance    500 launches in a row: what grows
"""
