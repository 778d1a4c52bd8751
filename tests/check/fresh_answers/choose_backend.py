import os
import time

import torch
import torch.distributed as dist

RIGHT, WRONG = [], []


def right(answer, what):
    RIGHT.append((answer, what))


def wrong(answer, what, words):
    WRONG.append((answer, what, words))


def choose_one_line(device, ranks_here, gpus_here, has_nccl):
    return "nccl" if device == "cuda" and has_nccl and ranks_here <= gpus_here else "gloo"
right(choose_one_line, "one line")


def choose_early_returns(device, ranks_here, gpus_here, has_nccl):
    if device == "cpu":
        return "gloo"
    if not has_nccl:
        return "gloo"
    if gpus_here < ranks_here:
        return "gloo"
    return "nccl"
right(choose_early_returns, "one reason after the other")


def choose_by_index(device, ranks_here, gpus_here, has_nccl):
    return ("gloo", "nccl")[all((device == "cuda", gpus_here >= ranks_here, has_nccl))]
right(choose_by_index, "a tuple indexed by a truth value")


def choose_with_and_or(device, ranks_here, gpus_here, has_nccl):
    return has_nccl and device != "cpu" and ranks_here / max(gpus_here, 1) <= 1 and gpus_here > 0 and "nccl" or "gloo"
right(choose_with_and_or, "and/or, ranks per GPU")


def choose_by_exception(device, ranks_here, gpus_here, has_nccl):
    try:
        assert device == "cuda"
        assert has_nccl
        assert list(range(gpus_here))[ranks_here - 1] == ranks_here - 1
    except (AssertionError, IndexError):
        return "gloo"
    return "nccl"
right(choose_by_exception, "the last rank must have a GPU, else IndexError")


def choose_by_match(device, ranks_here, gpus_here, has_nccl):
    match device, has_nccl, gpus_here - ranks_here:
        case "cuda", True, spare if spare >= 0:
            return "nccl"
        case _:
            return "gloo"
right(choose_by_match, "match with a guard")


def choose_by_device(device, ranks_here, gpus_here, has_nccl):
    return "nccl" if device == "cuda" else "gloo"
wrong(choose_by_device, "device alone", "a GPU for every rank, has_nccl")


def choose_if_built(device, ranks_here, gpus_here, has_nccl):
    return "nccl" if has_nccl else "gloo"
wrong(choose_if_built, "built with NCCL says nothing about the machine", "device, GPU, cpu tensors")


def choose_if_gpus(device, ranks_here, gpus_here, has_nccl):
    return "nccl" if gpus_here > 0 and has_nccl else "gloo"
wrong(choose_if_gpus, "there are GPUs, but the tensors may be on the CPU, and ranks may share", "device, cpu, share")


def choose_without_has_nccl(device, ranks_here, gpus_here, has_nccl):
    return "nccl" if device == "cuda" and ranks_here <= gpus_here else "gloo"
wrong(choose_without_has_nccl, "forgets a torch without NCCL", "has_nccl, built")


def choose_without_counting(device, ranks_here, gpus_here, has_nccl):
    return "nccl" if device == "cuda" and has_nccl else "gloo"
wrong(choose_without_counting, "forgets that ranks may share a GPU", "several ranks, share, two ranks on one GPU")


def choose_strictly_more(device, ranks_here, gpus_here, has_nccl):
    return "nccl" if device == "cuda" and has_nccl and gpus_here > ranks_here else "gloo"
wrong(choose_strictly_more, "> for >=: as many GPUs as ranks are enough", "as many, equal, >=")


def choose_exactly_equal(device, ranks_here, gpus_here, has_nccl):
    return "nccl" if device == "cuda" and has_nccl and gpus_here == ranks_here else "gloo"
wrong(choose_exactly_equal, "idle GPUs do no harm", "more GPUs than ranks, >=")


def choose_turned_round(device, ranks_here, gpus_here, has_nccl):
    return "nccl" if device == "cuda" and has_nccl and ranks_here >= gpus_here else "gloo"
wrong(choose_turned_round, "the comparison turned round", "a GPU for every rank, ranks <= GPUs")


def choose_or(device, ranks_here, gpus_here, has_nccl):
    return "nccl" if device == "cuda" and (has_nccl or ranks_here <= gpus_here) else "gloo"
wrong(choose_or, "or for and", "and, has_nccl, GPU for every rank")


def choose_ignores_the_device(device, ranks_here, gpus_here, has_nccl):
    return "nccl" if has_nccl and ranks_here <= gpus_here else "gloo"
wrong(choose_ignores_the_device, "tensors on the CPU get NCCL", "device, cpu")


def choose_truth_of_the_text(device, ranks_here, gpus_here, has_nccl):
    return "nccl" if device and has_nccl and ranks_here <= gpus_here else "gloo"
wrong(choose_truth_of_the_text, 'the text "cpu" is true as well', "device, cpu, text")


def choose_asks_this_machine(device, ranks_here, gpus_here, has_nccl):
    return "nccl" if torch.cuda.is_available() and dist.is_nccl_available() else "gloo"
wrong(choose_asks_this_machine, "asks this machine instead of its arguments", "arguments, device, ranks_here")


def choose_mpi_on_many(device, ranks_here, gpus_here, has_nccl):
    if ranks_here > 8:
        return "mpi"
    return "nccl" if device == "cuda" and has_nccl and ranks_here <= gpus_here else "gloo"
wrong(choose_mpi_on_many, "a third answer", "nccl or gloo, mpi")


def choose_both(device, ranks_here, gpus_here, has_nccl):
    if device == "cuda" and has_nccl and ranks_here <= gpus_here:
        return "cpu:gloo,cuda:nccl"
    return "gloo"
wrong(choose_both, "the name of a pair instead of one", "nccl, one name")


def choose_says_it_loudly(device, ranks_here, gpus_here, has_nccl):
    return "NCCL" if device == "cuda" and has_nccl and ranks_here <= gpus_here else "GLOO"
wrong(choose_says_it_loudly, "capital letters", 'small letters, "nccl", "gloo"')


def choose_none_for_gloo(device, ranks_here, gpus_here, has_nccl):
    if device == "cuda" and has_nccl and ranks_here <= gpus_here:
        return "nccl"
wrong(choose_none_for_gloo, "returns None where it should be gloo", "None, gloo, return")


def choose_true(device, ranks_here, gpus_here, has_nccl):
    return device == "cuda" and has_nccl and ranks_here <= gpus_here
wrong(choose_true, "a truth value instead of a name", 'text, "nccl", "gloo"')


def choose_one_gpu_each_of_several(device, ranks_here, gpus_here, has_nccl):
    return "nccl" if device == "cuda" and has_nccl and gpus_here > 1 else "gloo"
wrong(choose_one_gpu_each_of_several, "more than one GPU, whatever the ranks (and one rank on one GPU is NCCL's)", "a GPU for every rank, ranks_here")
