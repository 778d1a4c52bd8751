"""The programs that are compared, each as small as its tool allows.

A file that defines `answers(world_size)` is sent to a kernel as a cell: calling it starts a world, lets every rank
add its number in one all_reduce, and gives back what each rank then held.
"""
