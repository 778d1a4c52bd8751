"""Speed and memory: our launcher compared with others, measured in one run.

python -m benchmarks                    launches, first launches and memory, each with its target
python -m benchmarks.talking            the cost of recording, and the ring by hand compared with gloo's
python -m benchmarks.standstills        every mistake of the catalog: how soon is it reported, and is the message right
python -m benchmarks.failures_on_nodes  the same, and every way to fail, on two nodes and on this machine
python -m benchmarks.room               thirty kernels of four ranks on one machine
python -m benchmarks.endurance          500 launches in a row: is there a leak
"""
