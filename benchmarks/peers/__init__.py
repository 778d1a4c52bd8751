"""The programs that are compared, each as small as its tool allows.

A file that defines `answers(world_size)` is sent to a kernel as a cell. Calling it starts the ranks, lets every rank
add its number in one all_reduce, and returns each rank's result.
"""
