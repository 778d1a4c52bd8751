"""Lesson 6: who gets which samples."""

from __future__ import annotations

from ddp_lessons.quiz.question import Program, Question

QUESTIONS = (
    Question(
        text="Two ranks each shuffle all samples with a seed of their own. Rank 0 takes the first half of its "
        "order, rank 1 the second half of its own. How much of the data is seen?",
        right="About three quarters, and a third of these twice",
        letter="b",
        why="Each misses a sample with a chance of 1/2, both with 1/4; and 1/4 is in both halves. Lengths and "
        "steps are right, so nothing shows it.",
        wrong={
            "All of it, since two halves are one whole": "Two halves of the same order are. These are halves of "
            "two different orders, and they overlap.",
            "Half of it, since both see the same samples": "That would need both to take the same half of one "
            "order. Two orders share about half of a half.",
            "All of it in the long run, over many epochs": "The data are cut once, so each epoch leaves out the "
            "same quarter.",
        },
        look_at="The forgotten seed",
    ),
    Question(
        text="Seven samples, three ranks. What does rank 2 return?",
        program=Program(
            """
def f(rank, world_size):
    return list(DistributedSampler(range(7), shuffle=False))
""",
            holds='str(results[2]) == right.strip("`")',
            ranks=3,
        ),
        right="`[2, 5, 1]`",
        letter="d",
        why="Shares are made equal, three each, so the order is filled up from its front: 0 and 1 are dealt a "
        "second time.",
        wrong={
            "`[2, 5]`": "It would be fair, but then rank 0 had one more step than the others, who would not come "
            "to its last collective. So the sampler pads.",
            "`[4, 5, 6]`": "That is a share in one piece. The sampler deals like cards: rank 2 gets every third, "
            "from number 2 on.",
            "`[2, 5, 6]`": "6 is rank 0's third sample. What is filled up comes from the front of the order.",
        },
        look_at="DistributedSampler",
    ),
    Question(
        text="A model reads all of five samples but number 0. The accuracy is counted as here, on two ranks. What "
        "comes out?",
        program=Program(
            """
def f(rank, world_size):
    is_right = torch.tensor([0, 1, 1, 1, 1])
    mine = list(DistributedSampler(is_right, shuffle=False))
    counts = torch.tensor([is_right[mine].sum(), len(mine)])
    dist.all_reduce(counts)
    return counts.tolist()
""",
            holds='results[0] == [4, 6] and right.startswith("4 of 6")',
        ),
        right="4 of 6, although it is 4 of 5",
        letter="a",
        why="The sampler pads to six samples and deals number 0 twice. The figure changes with the world size; "
        "for validation take every N-th sample instead.",
        wrong={
            "4 of 5, as one process finds": "The shares would be three and two samples. The sampler makes them "
            "equal and counts one sample twice.",
            "5 of 6, since one is padded": "Padding repeats a sample, and here it is the one that the model "
            "cannot read. It adds to the count, not to what is right.",
            "8 of 10, for both ranks count all": "Each rank counts its own share only; the sampler does share. It "
            "is the repeated sample that is wrong.",
        },
        look_at="DistributedSampler",
    ),
    Question(
        text="`sampler.set_epoch(epoch)` is forgotten. The sampler shuffles. What is different in epoch 5?",
        right="Nothing: each rank sees the samples of epoch 0, in that order.",
        letter="c",
        why="It shuffles with its seed plus the epoch, and unless it is told, the epoch stays 0.",
        wrong={
            "The order within a rank's share, but the share stays the same.": "That is what `shuffle=True` of a "
            "loader does with a fixed partition. Here the share and its order come from the same dice, thrown once.",
            "The order, for the sampler counts each time that it is asked.": "It does not count, on purpose: a "
            "rank that asks once more, or one that was restarted, would then count differently.",
            "The ranks' orders no longer fit, so samples are seen twice.": "All ranks forget it alike, so their "
            "orders fit. Only no epoch differs from another.",
        },
        look_at="Another order in every epoch",
    ),
    Question(
        text="Four ranks train with `DataLoader(dataset, batch_size=32, shuffle=True)`, each on the whole "
        "dataset. What does an epoch cost, beside that of one process with batches of 32?",
        right="As many steps as one process takes: nothing is gained.",
        letter="b",
        why="Every rank sees everything. Each sample is computed four times in an epoch, and the model still "
        "learns well, so nobody notices.",
        wrong={
            "A quarter of the steps: the loader shares them out.": "A loader knows nothing of ranks. Who shares "
            "is a partition or a `DistributedSampler`.",
            "An error: `shuffle=True` is not allowed with ranks.": "It is refused beside a sampler. By itself it "
            "is fine, and fine on a partition, where it shuffles within the share.",
            "Four times the steps, which the ranks do in turn.": "They all work at the same time. But each does "
            "the work of the one process.",
        },
        look_at="shuffle=True",
    ),
    Question(
        text="All ranks say `torch.manual_seed(1)` and never seed again. What is wrong with the training?",
        right="All throw one coin: the same dropout masks everywhere.",
        letter="d",
        why="So the randomness of a global batch is that of one share. Equal starts are wanted, equal masks are "
        "not: make the model, then seed by rank.",
        wrong={
            "Nothing: equal seeds keep the replicas equal, too.": "Weights stay equal because starts and steps "
            "are equal. After the start, equal random numbers have nothing to do with it.",
            "The start weights are equal, and so learn the same.": "Between ranks they have to be equal. Only "
            "what is random during the training should differ.",
            "The samplers deal the same samples to all of them.": "A `DistributedSampler` has random numbers of "
            "its own, with one seed for all; that is just why the shares fit together.",
        },
        look_at="One coin for all",
    ),
    Question(
        text="A training with `F.nll_loss(model(x), labels)` reports a loss of -3.2. What do you conclude?",
        right="The net does not end in `log_softmax`.",
        letter="a",
        why="Logarithms of probabilities are never above 0, so this loss is never below 0. `nll_loss` does not "
        "look whether its numbers are logarithms, and growing outputs push it down for ever.",
        wrong={
            "The net has learned better than anybody expected.": "0 would be perfect, and nothing is better than "
            "that. A loss below it is a mistake.",
            "The gradients were added up and not averaged.": "That makes larger steps, but of a right loss: it "
            "would still stay above 0.",
            "The learning rate is too large, so it overshoots.": "An overshoot makes a loss rise. Below 0 a right "
            "one cannot come by any step.",
        },
        look_at="The program",
    ),
)
