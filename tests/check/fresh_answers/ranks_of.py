import os
import time

import torch
import torch.distributed as dist

RIGHT, WRONG = [], []


def right(answer, what):
    RIGHT.append((answer, what))


def wrong(answer, what, words):
    WRONG.append((answer, what, words))


from itertools import accumulate


def ranks_sum_before(gpus, machine):
    counts = [int(c) for c in gpus.split(",")]
    first = sum(counts[:machine])
    return list(range(first, first + counts[machine]))
right(ranks_sum_before, "three lines")


def ranks_as_a_range(gpus, machine):
    counts = list(map(int, gpus.split(",")))
    return range(sum(counts[:machine]), sum(counts[: machine + 1]))
right(ranks_as_a_range, "a range")


def ranks_by_accumulate(gpus, machine):
    ends = [0, *accumulate(int(c) for c in gpus.split(","))]
    return [*range(ends[machine], ends[machine + 1])]
right(ranks_by_accumulate, "accumulate")


def ranks_counted_one_by_one(gpus, machine):
    rank, mine = 0, []
    for number, count in enumerate(gpus.split(",")):
        for _ in range(int(count)):
            if number == machine:
                mine.append(rank)
            rank += 1
    return mine
right(ranks_counted_one_by_one, "counts every process")


def ranks_by_owner(gpus, machine):
    owner = [m for m, count in enumerate(gpus.split(",")) for _ in range(int(count))]
    return [rank for rank, m in enumerate(owner) if m == machine]
right(ranks_by_owner, "a list of owners")


def ranks_by_tensor_split(gpus, machine):
    counts = torch.tensor([int(c) for c in gpus.split(",")])
    return torch.arange(int(counts.sum())).split(counts.tolist())[machine].tolist()
right(ranks_by_tensor_split, "torch's split")


def ranks_recursive(gpus, machine):
    head, _, rest = gpus.partition(",")
    if machine == 0:
        return list(range(int(head)))
    return [int(head) + rank for rank in ranks_recursive(rest, machine - 1)]
right(ranks_recursive, "recursion over the text")


def ranks_local_numbers(gpus, machine):
    return list(range(int(gpus.split(",")[machine])))
wrong(ranks_local_numbers, "local ranks: begins with 0 on each machine", "local rank, machines before, rank")


def ranks_all_machines_equal(gpus, machine):
    count = int(gpus.split(",")[machine])
    return list(range(machine * count, (machine + 1) * count))
wrong(ranks_all_machines_equal, "machine times its own count", "machines before, unequal, sum")


def ranks_text_as_number(gpus, machine):
    return list(range(machine * gpus, (machine + 1) * gpus))
wrong(ranks_text_as_number, "the text used as a number", "text, int, split, TypeError")


def ranks_by_characters(gpus, machine):
    counts = [int(c) for c in gpus if c != ","]
    first = sum(counts[:machine])
    return list(range(first, first + counts[machine]))
wrong(ranks_by_characters, "digit by digit: 16 is a 1 and a 6", "split, two digits, comma")


def ranks_includes_own_in_the_start(gpus, machine):
    counts = [int(c) for c in gpus.split(",")]
    first = sum(counts[: machine + 1])
    return list(range(first, first + counts[machine]))
wrong(ranks_includes_own_in_the_start, "counts its own GPUs among those before", "before, own, off")


def ranks_of_two_machines(gpus, machine):
    a, b = map(int, gpus.split(","))
    return list(range(a)) if machine == 0 else list(range(a, a + b))
wrong(ranks_of_two_machines, "two machines only", "any number of machines, unpack")


def ranks_machine_from_1(gpus, machine):
    counts = [int(c) for c in gpus.split(",")]
    first = sum(counts[: machine - 1])
    return list(range(first, first + counts[machine - 1]))
wrong(ranks_machine_from_1, "machines counted from 1", "counts from 0")


def ranks_from_1(gpus, machine):
    counts = [int(c) for c in gpus.split(",")]
    first = sum(counts[:machine]) + 1
    return list(range(first, first + counts[machine]))
wrong(ranks_from_1, "ranks counted from 1", "from 0, off by one")


def ranks_last_missing(gpus, machine):
    counts = [int(c) for c in gpus.split(",")]
    first = sum(counts[:machine])
    return list(range(first, first + counts[machine] - 1))
wrong(ranks_last_missing, "the end of a range taken as included", "last rank, range, one too few")


def ranks_one_too_many(gpus, machine):
    counts = [int(c) for c in gpus.split(",")]
    first = sum(counts[:machine])
    return list(range(first, first + counts[machine] + 1))
wrong(ranks_one_too_many, "one rank too many", "one too many, range")


def ranks_start_and_count(gpus, machine):
    counts = [int(c) for c in gpus.split(",")]
    return list(range(sum(counts[:machine]), counts[machine]))
wrong(ranks_start_and_count, "range(start, count): the second is an end", "range, end, count")


def ranks_of_eight_gpus(gpus, machine):
    return list(range(8 * machine, 8 * machine + int(gpus.split(",")[machine])))
wrong(ranks_of_eight_gpus, "eight GPUs on each machine before", "machines before, 8, sum")


def ranks_only_the_machine_before(gpus, machine):
    counts = [int(c) for c in gpus.split(",")]
    first = counts[machine - 1] if machine else 0
    return list(range(first, first + counts[machine]))
wrong(ranks_only_the_machine_before, "looks at one machine before, not at all", "all machines before, sum")


def ranks_how_many(gpus, machine):
    return int(gpus.split(",")[machine])
wrong(ranks_how_many, "how many, not which", "list, ranks, number")


def ranks_first_rank(gpus, machine):
    return sum(int(c) for c in gpus.split(",")[:machine])
wrong(ranks_first_rank, "only the first rank", "list, ranks")


def ranks_as_texts(gpus, machine):
    counts = [int(c) for c in gpus.split(",")]
    first = sum(counts[:machine])
    return [str(r) for r in range(first, first + counts[machine])]
wrong(ranks_as_texts, "texts instead of numbers", "numbers, int, text")


def ranks_dealt_out(gpus, machine):
    counts = [int(c) for c in gpus.split(",")]
    return list(range(machine, sum(counts), len(counts)))
wrong(ranks_dealt_out, "deals the ranks out to the machines like cards", "neighboring, machines before, in order")


def ranks_forgets_to_return(gpus, machine):
    counts = [int(c) for c in gpus.split(",")]
    print(list(range(sum(counts[:machine]), sum(counts[: machine + 1]))))
wrong(ranks_forgets_to_return, "prints, returns None", "None, return")
