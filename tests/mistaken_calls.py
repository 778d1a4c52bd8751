"""Every kind of mistake, put into every kind of call: short programs, as texts, and the words that name their cause."""

from __future__ import annotations

import itertools
import linecache
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from mistaken_programs import programs
from old_torch import HAS_ALL_TO_ALL

_HEAD = "import time, datetime, torch, torch.distributed as dist\n"


@dataclass(frozen=True)
class Mistaken:
    """A program that is wrong in one place. `#!` marks the lines of which its message has to name one."""

    kind: str
    name: str
    text: str  # the body of a function of (rank, n)
    words: tuple[str, ...]  # patterns; one of them has to be found in what is said of the cause
    hint: str = ""  # and this one in the advice

    @property
    def file(self) -> str:
        return f"{self.kind}-{self.name}.py".replace(" ", "_")

    @property
    def function(self) -> Callable[[int, int], Any]:
        source = f"{_HEAD}def run(rank, n):\n{textwrap.indent(self.text, '    ')}\n"
        path = f"/programs/{self.file}"
        linecache.cache[path] = (len(source), None, source.splitlines(keepends=True), path)
        names: dict[str, Any] = {"__name__": "programs"}
        exec(compile(source, path, "exec"), names)
        return names["run"]  # type: ignore[no-any-return]

    @property
    def places(self) -> list[str]:
        begin = _HEAD.count("\n") + 2
        return [f"{self.file} line {n}" for n, line in enumerate(self.text.split("\n"), begin) if "#!" in line]


# ---- collectives: each text takes what ranks may disagree about

_T = "torch.ones({shape}, dtype={dtype})"
_LIST = "[torch.ones({shape}, dtype={dtype}) for _ in range(size)]"
COLLECTIVES = {
    "all_reduce": f"dist.all_reduce({_T}, op={{op}}{{more}})",
    "broadcast": f"dist.broadcast({_T}, {{root}}{{more}})",
    "reduce": f"dist.reduce({_T}, {{root}}, op={{op}}{{more}})",
    "all_gather": f"dist.all_gather({_LIST}, {_T}{{more}})",
    "gather": f"dist.gather({_T}, {_LIST} if rank == {{root}} else None, {{root}}{{more}})",
    "scatter": f"dist.scatter({_T}, {_LIST} if rank == {{root}} else None, {{root}}{{more}})",
    "reduce_scatter": f"dist.reduce_scatter({_T}, {_LIST}, op={{op}}{{more}})",
    **({"all_to_all": f"dist.all_to_all({_LIST}, {_LIST}{{more}})"} if HAS_ALL_TO_ALL else {}),
    "all_gather_single": "dist.all_gather_into_tensor(torch.ones(size * ({shape}), dtype={dtype}), " + _T + "{more})",
    "reduce_scatter_single": f"dist.reduce_scatter_tensor({_T}, torch.ones(size * ({{shape}}), dtype={{dtype}}), "
    "op={op}{more})",
    "all_to_all_single": "dist.all_to_all_single(torch.ones(size * ({shape}), dtype={dtype}), "
    "torch.ones(size * ({shape}), dtype={dtype}){more})",
    "barrier": "dist.barrier({only})",
    "broadcast_object_list": "dist.broadcast_object_list(['a'], {root}{more})",
    "all_gather_object": "dist.all_gather_object([None] * size, rank{more})",
    "gather_object": "dist.gather_object(rank, [None] * size if rank == {root} else None, {root}{more})",
    "scatter_object_list": "dist.scatter_object_list([None], ['a'] * size, {root}{more})",
    "functional_all_reduce": f"fc.all_reduce({_T}, {{word}}, {{group}}).sum()",
    "functional_all_gather": f"fc.all_gather_tensor({_T}, 0, {{group}}).sum()",
    "functional_reduce_scatter": "fc.reduce_scatter_tensor(torch.ones(size * ({shape}), dtype={dtype}), {word}, 0, "
    "{group}).sum()",
    "functional_broadcast": f"fc.broadcast({_T}, {{root}}, {{group}}).sum()",
}
_ONLY_BLOCKING = ("object", "functional")
AGREED = {"shape": "4", "dtype": "torch.float32", "op": "dist.ReduceOp.SUM", "root": "0", "word": "'sum'"}
_NEVER_CAME = (r"[Rr]ank 1 returned without", r"Mismatched (collectives|calls)")
_OTHER_WAY = {  # what rank 1 does otherwise, and the words for it
    "shape": ("(5 if rank == 1 else 4)", (r"(Shape|Size) mismatch",)),
    "dtype": ("(torch.float64 if rank == 1 else torch.float32)", (r"(Dtype|Size) mismatch",)),
    "op": ("(dist.ReduceOp.MAX if rank == 1 else dist.ReduceOp.SUM)", (r"Reduce op mismatch",)),
    "word": ("'max' if rank == 1 else 'sum'", (r"Reduce op mismatch",)),
    "root": ("(1 if rank == 1 else 0)", (r"Root mismatch",)),
}
CONTEXTS = ("world", "group", "async")


def _call(name: str, context: str, **other: str) -> str:
    """One line that makes this call."""
    more = ", group=group" if context == "group" else ""
    more += ", async_op=True" if context == "async" else ""
    group = "group" if context == "group" else "dist.group.WORLD"
    told = {**AGREED, **other, "more": more, "only": more.removeprefix(", "), "group": group}
    return COLLECTIVES[name].format(**told) + (".wait()" if context == "async" else "")


def _in_context(context: str, *lines: str) -> str:
    begin = [f"size = {2 if context == 'group' else 'n'}"]
    if any("fc." in line for line in lines):
        begin.append("import torch.distributed._functional_collectives as fc")
    body = list(lines)
    if context == "group":
        begin.append("group = dist.new_group([0, 1])")
        body = ["if rank < 2:", *(f"    {line}" for line in body)]
    return "\n".join([*begin, *body])


def _fits(name: str, context: str) -> bool:
    return context != "async" or not any(word in name for word in _ONLY_BLOCKING)


def of_collectives() -> Iterator[Mistaken]:
    for name, context in itertools.product(COLLECTIVES, CONTEXTS):
        if _fits(name, context):
            yield from _missing_calls(name, context)
            yield from _other_arguments(name, context)
            if context == "async":
                yield from _careless(name)


def _missing_calls(name: str, context: str) -> Iterator[Mistaken]:
    call = _call(name, context)
    other = _call("all_reduce" if "broadcast" in name else "broadcast", context, shape="7")
    where = f"{name} {context}"
    texts = {
        "left out": ["if rank != 1:", f"    {call}  #!"],
        "one too many": ["if rank == 1:", f"    {call}  #!", other, call],
        "exchanged": ["if rank == 1:", f"    {other}  #!", f"{call}  #!", "if rank != 1:", f"    {other}  #!"],
        "another instead": ["if rank == 1:", f"    {other}  #!", "else:", f"    {call}  #!"],
    }
    for kind, lines in texts.items():
        words = (*_NEVER_CAME, *([r"[Rr]anks 0 and 2 returned|[Rr]ank 0 returned"] * (kind == "one too many")))
        yield Mistaken(kind, where, _in_context(context, *lines), words)
    swallowed = ["for step in range(3):", "    try:", "        if (rank, step) == (1, 1):"]
    swallowed += ["            raise ValueError('a bad batch')", f"        {call}  #!", "    except ValueError:"]
    swallowed += ["        pass"]
    yield Mistaken("swallowed", where, _in_context(context, *swallowed), _NEVER_CAME, "swallowed")
    early = ["for step in range(3):", "    if rank == 1 and step == 2:", "        return", f"    {call}  #!"]
    yield Mistaken("returned early", where, _in_context(context, *early), _NEVER_CAME, "fewer|early return")


def _other_arguments(name: str, context: str) -> Iterator[Mistaken]:
    text = COLLECTIVES[name]
    where = f"{name} {context}"
    for what, (other, words) in _OTHER_WAY.items():
        if f"{{{what}}}" in text:
            line = f"{_call(name, context, **{what: other})}  #!"
            yield Mistaken(f"other {what}", where, _in_context(context, line), words)
    if "{root}" in text:
        words = (r"invalid root rank|must NOT be specified|is not part of group|there is no rank",)
        for kind, root in {"root past the end": "n", "root before the first": "-1"}.items():
            line = f"{_call(name, context, root=root)}  #!"
            yield Mistaken(kind, where, _in_context(context, line), words, "src|dst|group|list")


_GIVEN = {  # what each rank gives, while it is still needed
    "all_reduce": "dist.all_reduce(given, async_op=True)",
    "broadcast": "dist.broadcast(given, 0, async_op=True)",
    "all_gather": "dist.all_gather([torch.empty_like(given) for _ in range(size)], given, async_op=True)",
    "gather": "dist.gather(given, [given.clone() for _ in range(size)] if rank == 0 else None, 0, async_op=True)",
    "reduce_scatter": "dist.reduce_scatter(torch.empty_like(given), [given] * size, async_op=True)",
}


def _careless(name: str) -> Iterator[Mistaken]:
    call = _call(name, "async").removesuffix(".wait()")
    yield Mistaken("not waited for", name, _in_context("async", f"{call}  #!"), (r"never called wait\(\)",))
    if name in _GIVEN:
        lines = ["given = torch.ones(1 << 18)", f"work = {_GIVEN[name]}  #!", "given /= size", "work.wait()"]
        yield Mistaken("changed before wait", name, _in_context("async", *lines), (r"changed the tensor",))


# ---- messages

_SENDS = {
    "send": "dist.send({t}, {peer}{tag}{more})",
    "isend": "dist.isend({t}, {peer}{tag}{more}).wait()",
    "batch": "dist.batch_isend_irecv([dist.P2POp(dist.isend, {t}, {peer}{batch}{tag})])[0].wait()",
    "objects": "dist.send_object_list(['a'], {peer}{more})",
}
_RECVS = {
    "send": "dist.recv({t}, {peer}{tag}{more})",
    "isend": "dist.irecv({t}, {peer}{tag}{more}).wait()",
    "batch": "dist.batch_isend_irecv([dist.P2POp(dist.irecv, {t}, {peer}{batch}{tag})])[0].wait()",
    "objects": "dist.recv_object_list([None], {peer}{more})",
}


def _message(texts: dict[str, str], how: str, context: str, peer: str, tag: str = "", tensor: str = "") -> str:
    group = context == "group"
    told = {"t": tensor or "torch.ones(4)", "peer": peer, "more": ", group=group" if group else ""}
    return texts[how].format(**told, tag=tag, batch=", group" if group else "")


def of_messages() -> Iterator[Mistaken]:
    for how, context in itertools.product(_SENDS, ("world", "group")):

        def send(peer: str = "1", how: str = how, context: str = context, **other: str) -> str:
            return _message(_SENDS, how, context, peer, **other)

        def recv(peer: str = "0", how: str = how, context: str = context, **other: str) -> str:
            return _message(_RECVS, how, context, peer, **other)

        for kind, lines, words in _of_one_message(send, recv, how):
            yield Mistaken(kind, f"{how} {context}", _in_context(context, *lines), words)


def _of_one_message(send: Callable[..., str], recv: Callable[..., str], how: str) -> Iterator[tuple[Any, ...]]:
    def pair(first: str, second: str) -> list[str]:
        return ["if rank == 0:", f"    {first}  #!", "elif rank == 1:", f"    {second}  #!"]

    no_rank = (r"there is no rank", r"is not part of group")
    yield "nobody receives", pair(send(), "pass"), (r"rank 1 returned without the recv",)
    yield "nobody sends", pair("pass", recv()), (r"rank 0 returned without the send",)
    yield "to the rank past the end", ["if rank == 0:", f"    {send('n')}  #!"], no_rank
    yield "from the rank before the first", ["if rank == 0:", f"    {recv('rank - 1')}  #!"], no_rank
    yield "to itself", ["if rank == 0:", f"    {send('0')}  #!"], (r"should not be the same|Pair is not|itself",)
    yield "both send", pair(send(), send("0")), (r"wait for the other to receive",)
    yield "both receive", pair(recv("1"), recv()), (r"wait for the other to send",)
    loop = ["for step in range(2 + (rank == 1)):", *(f"    {line}" for line in pair(send(), recv()))]
    yield "one receive too many", loop, (r"rank 0 returned without the send",)
    swallowed = [
        "for step in range(3):",
        "    try:",
        "        if (rank, step) == (0, 1):",
        "            raise ValueError",
    ]
    swallowed += [f"        {line}" for line in pair(send(), recv())]
    yield "swallowed", [*swallowed, "    except ValueError:", "        pass"], (r"rank 0 returned without the send",)
    barrier = f"dist.barrier({'group=group' if 'group' in send() else ''})"
    collective = ["if rank == 0:", f"    {send()}  #!", barrier]
    yield "a barrier instead", collective, (r"circle", r"returned without the recv", r"in barrier")
    if how == "objects":
        return
    fits = (r"(Shape|Dtype) mismatch between send and recv",)
    yield "smaller buffer", pair(send(), recv(tensor="torch.ones(2)")), fits
    yield "larger buffer", pair(send(), recv(tensor="torch.ones(8)")), fits
    yield "other dtype", pair(send(), recv(tensor="torch.ones(4, dtype=torch.int32)")), fits
    tag = (", " if how == "batch" else ", tag=") + "{}"
    if how != "batch":
        yield "other tag", pair(send(tag=tag.format(1)), recv(tag=tag.format(2))), (r"Tag mismatch",)
    if how == "isend":
        yield "not waited for", pair(send(), recv().removesuffix(".wait()")), (r"never called wait\(\)",)
        begin = send(tensor="given").removesuffix(".wait()")
        lines = [
            "given = torch.ones(4)",
            "if rank == 0:",
            f"    work = {begin}  #!",
            "    given /= 2",
            "    work.wait()",
        ]
        yield "changed before wait", [*lines, "elif rank == 1:", f"    {recv()}"], (r"before calling wait",)


def all_mistaken() -> list[Mistaken]:
    whole = [Mistaken(kind, name, text, (words,)) for kind, name, text, words in programs()]
    return [*of_collectives(), *of_messages(), *whole]


def correct(context: str) -> Mistaken:
    """Of all collectives the call without a mistake, one after the other."""
    calls = [_call(name, context) for name in COLLECTIVES if _fits(name, context)]
    return Mistaken("correct", context, _in_context(context, *calls), ())
