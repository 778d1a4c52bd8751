"""Lesson 5: many ranks, one training."""

from __future__ import annotations

from ddp_lessons.quiz.question import Program, Question

QUESTIONS = (
    Question(
        text="Two ranks with two samples each. What do both return?",
        program=Program(
            """
def f(rank, world_size):
    samples = torch.tensor([2.0, 4.0] if rank == 0 else [6.0, 8.0])
    weight = torch.tensor(0.0, requires_grad=True)
    (weight - samples).square().mean().backward()
    dist.all_reduce(weight.grad)
    return (weight.grad / world_size).item()
""",
            holds='[str(value) for value in results] == [right.strip("`")] * 2',
        ),
        right="`-10.0`",
        letter="c",
        why="Rank 0 finds -6, rank 1 finds -14; their mean is the gradient of all four samples, 2 x (0 - 5).",
        wrong={
            "`-6.0` and `-14.0`": "These are the gradients before the ranks have talked. `all_reduce` works in "
            "place, so both hold the sum, and half of it is the mean.",
            "`-20.0`": "That is the sum, as `all_reduce` leaves it. The last line divides it by the number of ranks.",
            "`-5.0`": "The samples' mean is 5, but the gradient of a square has a factor of 2 in it.",
        },
        look_at="A model of one number",
    ),
    Question(
        text="The line that averages was lost: each of four ranks takes its own steps. What do you see of it?",
        right="Losses that fall on every rank, perhaps lower than before.",
        letter="a",
        why="Each rank learns its own quarter, which is easier to please than all data. Four models, no error; "
        "fingerprints show it.",
        wrong={
            "An error, since the weights of the ranks no longer agree.": "Nobody compares them. Each rank has a "
            "model of its own, and sees nothing of the others'.",
            "A loss that no longer falls, since the ranks pull apart.": "They do pull apart, but each goes "
            "downhill on its own samples, and its own loss is all that it prints.",
            "A standstill, since the ranks wait for missing gradients.": "They would wait inside a collective. "
            "Without one there is nothing to wait for.",
        },
        look_at="When one forgets",
    ),
    Question(
        text="Gradients are averaged in each step, but rank 1 starts ten higher. How far apart are the ranks at "
        "the end?",
        program=Program(
            """
def f(rank, world_size):
    weight = torch.tensor(10.0 * rank)
    for _ in range(50):
        gradient = 2 * (weight - 3)
        dist.all_reduce(gradient)
        weight -= 0.25 * gradient / world_size
    return weight.item()
""",
            holds='abs(results[1] - results[0] - 10) < 1e-4 and right.startswith("Still 10")',
        ),
        right="Still 10, as at the start",
        letter="d",
        why="Both take the same steps, so the distance never changes. Replicas stay equal only if they start "
        "equal: broadcast rank 0's weights once.",
        wrong={
            "0: averaging draws them together": "Gradients are averaged, not weights. A common step moves both by "
            "the same amount.",
            "5: they meet half-way": "Their mean goes to 3, the best weight, but neither of them does: one ends "
            "five below it, one five above.",
            "It grows with every step": "So it would without averaging, on different data. With equal steps the "
            "distance neither grows nor shrinks.",
        },
        look_at="When one forgets",
    ),
    Question(
        text="The division is forgotten: gradients are added up over 4 ranks, with a learning rate of 0.1. Which "
        "check notices?",
        right="One process with all the data ends elsewhere.",
        letter="b",
        why="It is a training with a learning rate of 0.4. All ranks agree on it, so only a yardstick from "
        "outside tells.",
        wrong={
            "The fingerprints of the ranks differ from each other.": "All made the same mistake and took the same "
            "steps. Equal fingerprints are necessary, but they prove only that ranks agree.",
            "Each rank's loss rises from the first step on.": "It may even fall faster, as with any larger "
            "learning rate, until there are so many ranks that it flies away.",
            "torch warns that the gradients were not divided.": "torch cannot know what is wanted. A sum is a "
            "perfectly good result of `all_reduce`.",
        },
        look_at="Sum or mean?",
    ),
    Question(
        text="Rank 0 had 1 sample, and its mean gradient is 8. Rank 1 had 3 samples, and its mean gradient is 4. "
        "What is the gradient of all four?",
        right="5",
        letter="a",
        why="Weighted by the samples: (1 x 8 + 3 x 4) / 4. The plain mean would let one sample count as much as three.",
        wrong={
            "6": "That is the mean of the two means, what averaging over ranks gives. It is right only where all "
            "shares are equally large.",
            "12": "That is the sum of the two means. A gradient of a mean loss is itself a mean, over the samples.",
            "20": "That is the weighted sum, 1 x 8 + 3 x 4. It still has to be divided by all four samples.",
        },
        look_at="Unequal shares",
    ),
    Question(
        text="How many of this model's parameters pass the guard of the well-known script?",
        program=Program(
            """
def f(rank, world_size):
    model = nn.Linear(3, 2)
    return sum(type(parameter) is torch.Tensor
               for parameter in model.parameters())
""",
            holds='results[0] == 0 and right == "None of them"',
            ranks=1,
        ),
        right="None of them",
        letter="c",
        why="A parameter is an `nn.Parameter`, a kind of tensor; `type(...) is` asks for the very class. So "
        "nothing was ever averaged there.",
        wrong={
            "Both: weight and bias": "`isinstance(parameter, torch.Tensor)` would say yes to both. `type(...) is` "
            "says yes only to the class itself, not to its kinds.",
            "One: the weight alone": "The bias is no other kind of thing: both are `nn.Parameter`, and the guard "
            "is false for both.",
            "All eight of its numbers": "`parameters()` goes through tensors, and there are two of them, with 6 + "
            "2 numbers inside.",
        },
        look_at="Fingerprints",
    ),
)
