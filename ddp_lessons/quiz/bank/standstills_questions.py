"""Lesson 9: what goes wrong, and how to find it."""

from __future__ import annotations

from ddp_lessons.quiz.question import Program, Question

QUESTIONS = (
    Question(
        text="The message says: rank 0 waits in `all_reduce` (line 5), ranks 1 and 2 have returned. Where do you "
        "look for the mistake?",
        right="At what let ranks 1 and 2 return without that call",
        letter="d",
        why="The rank that waits is rarely the one that is wrong: it does what it should. An `if rank == 0`, an "
        "early return, one batch less?",
        wrong={
            "At line 5, for that is where the program got stuck": "That line is where it shows. A collective "
            "waits for the others, and it is they who are somewhere else.",
            "At the network, since the others no longer answer": "They have returned: they ended well and make no "
            "more calls. No network is in the way.",
            "At rank 0's tensor, which must have a wrong shape": "A shape that does not fit has a message of its "
            "own. Here nobody else brought a tensor at all.",
        },
        look_at="Somebody does not come",
    ),
    Question(
        text="Both ranks reduce a loss and an accuracy, but not in the same order. What is `loss` on rank 0?",
        program=Program(
            """
def f(rank, world_size):
    loss = torch.tensor([1.0, 3.0][rank])
    accuracy = torch.tensor([10.0, 30.0][rank])
    first, second = (loss, accuracy) if rank == 0 else (accuracy, loss)
    dist.all_reduce(first)
    dist.all_reduce(second)
    return loss.item()
""",
            holds="results[0] == 31 and right.startswith('31')",
        ),
        right="31, and nobody complains",
        letter="a",
        why="Collectives carry no names: rank 0's first call meets rank 1's first. 1 + 30, and both calls look alike.",
        wrong={
            "4, whatever the order is": "1 + 3 would need a way to tell which tensor is the loss. gloo only knows "
            "which call comes first.",
            "None: the two wait for ever": "So it is with calls of different kinds. Two of one kind and shape fit "
            "each other perfectly.",
            "None: `launch` refuses it": "`launch` compares kind, shape, dtype, root and op, and here all of "
            "these agree. What you meant it cannot see.",
        },
        look_at="Two lines change places",
    ),
    Question(
        text="A model with BatchNorm is wrapped in DDP. After each epoch rank 0 alone calls `model(images)` to "
        "validate. What happens?",
        right="Rank 0 waits: a forward pass sends buffers to all.",
        letter="c",
        why="DDP sends rank 0's buffers before a forward pass, also in `eval()`: a collective that you do not "
        "see. Alone, use `model.module`.",
        wrong={
            "Nothing: only `backward()` talks to other ranks.": "So it is for a model without buffers, and "
            "therefore it works, until somebody adds a BatchNorm.",
            "Nothing: in `eval()` mode DDP keeps quiet.": "`eval()` changes what BatchNorm and dropout do. DDP "
            "sends the buffers all the same.",
            "An error: a wrapped model refuses to run on one rank.": "DDP cannot know that the others do not "
            "come. It sends, and waits for them.",
        },
        look_at="A collective that you do not see",
    ),
    Question(
        text="Four ranks run `torch.save({'rank': rank}, path)` with one path, rank 3 being slowest. What is "
        "reported, and what is in the file?",
        right="Nothing is reported; in the file is rank 3's.",
        letter="b",
        why="Whoever is last wins, here by chance the slowest. And two that write at one moment may leave half a "
        "file of each.",
        wrong={
            "Nothing is reported; in the file is rank 0's.": "Rank 0 is no master: its write is overwritten like "
            "any other. It has to be asked for, `if rank == 0:`.",
            "An error: the path is taken on three ranks.": "A file is no port. The system lets any number of "
            "processes write to it.",
            "Nothing is reported; all four are in the file.": "A file that is opened for writing begins empty. "
            "Nothing is appended.",
        },
        look_at="Everybody saves",
    ),
    Question(
        text="After every step all four ranks have the same fingerprint. What does that prove?",
        right="That they agree, which all could do on something wrong",
        letter="d",
        why="A sum in place of a mean, or one order in every epoch, is the same mistake on all ranks. The "
        "yardstick is one process with all the data.",
        wrong={
            "That the gradients were averaged as they should have been": "Added up they would agree as well. "
            "Equal steps need equal gradients, not right ones.",
            "That one process with all the data would end there, too": "That needs right gradients as well. "
            "Whether it holds is seen only by running the one process.",
            "That every rank saw its own share, and all data were seen": "The weights of all ranks follow from "
            "the averaged gradients. What went into these a fingerprint does not tell.",
        },
        look_at="They agree, and are wrong",
    ),
    Question(
        text="Which of these does `TORCH_DISTRIBUTED_DEBUG=DETAIL` explain?",
        right="An `all_reduce` of 3 numbers that meets one of 4",
        letter="a",
        why="With it the ranks compare kind and shape before each collective. Messages, waits and meanings it "
        "does not see.",
        wrong={
            "Two ranks that both call `send` before their `recv`": "It compares collectives only. Two polite "
            "ranks time out without an explanation.",
            "An `async_op=True` call whose `wait()` was forgotten": "The call itself is right on every rank. That "
            "nobody waits for it is not looked at.",
            "A loss that is added up with another rank's accuracy": "Both are an `all_reduce` of one float. No "
            "checker knows what the numbers mean.",
        },
        look_at="What torch says by itself",
    ),
)
