"""Lesson 5: many ranks, one training run."""

from __future__ import annotations

from ddp_lessons.quiz.question import Program, Question

QUESTIONS = (
    Question(
        text="Two ranks with two samples each. What does each rank return?",
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
        why="Rank 0 computes -6 and rank 1 computes -14. Their mean is the gradient of all four samples, 2 x (0 - 5).",
        wrong={
            "`-6.0` and `-14.0`": "These are the gradients before the `all_reduce`. It works in place, so afterwards "
            "both ranks hold the sum, and half of it is the mean.",
            "`-20.0`": "That is the sum, as `all_reduce` leaves it. The last line divides it by the number of ranks.",
            "`-5.0`": "The mean of the samples is 5, but the gradient of a square has a factor of 2.",
        },
        look_at="Average gradients with all_reduce",
    ),
    Question(
        text="The line that averages is missing, so each of four ranks takes its own steps. What do you see?",
        right="Losses that fall on each rank, perhaps lower than before.",
        letter="a",
        why="Each rank fits its own quarter of the data, which is easier than all of it. There are four models and no "
        "error, but the fingerprints differ.",
        wrong={
            "An error, since the weights of the ranks no longer agree.": "Nothing compares them. Each rank has its own "
            "model and doesn't see those of the others.",
            "A loss that no longer falls, since the ranks drift apart.": "They do drift apart, but each one follows "
            "its own gradient, and it prints only the loss of its own samples.",
            "A hang, because the ranks wait for the missing gradients.": "Ranks wait only inside a collective, and "
            "here no rank calls one, so there is nothing to wait for.",
        },
        look_at="Keep replicas equal",
    ),
    Question(
        text="The ranks average their gradients in each step, but rank 1's initial weight is larger by 10. How far "
        "apart are the ranks at the end?",
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
        why="Both ranks take the same steps, so the distance never changes. Replicas stay equal only if they start "
        "equal, so broadcast rank 0's weights once.",
        wrong={
            "0, because averaging brings them together": "The ranks average gradients, not weights. A common step "
            "moves both weights by the same amount.",
            "5, because they meet half-way": "The mean of the two weights goes to 3, the best weight. But one rank "
            "ends five below it and the other five above.",
            "More, because it grows with every step": "Both ranks take the same step each time, so the distance "
            "neither grows nor shrinks.",
        },
        look_at="Broadcast the initial weights",
    ),
    Question(
        text="With 4 ranks and a learning rate of 0.1, the gradients are added up, but not divided. Which check finds "
        "this bug?",
        right="Comparing with one process that has all the data.",
        letter="b",
        why="It is a training run with a learning rate of 0.4. All ranks agree on it, so only a baseline from outside "
        "shows the difference.",
        wrong={
            "Comparing the fingerprints of the ranks with each other.": "All ranks have the same bug and take the same "
            "steps. Equal fingerprints prove only that the ranks agree.",
            "Watching whether the loss of a rank rises at once.": "It may even fall faster, as with any larger "
            "learning rate, and it diverges only if the learning rate is too large.",
            "Watching the log for a warning from torch.": "There is none, because torch can't know what you want. A "
            "sum is a valid result of `all_reduce`.",
        },
        look_at="Sum or mean, and the learning rate",
    ),
    Question(
        text="Rank 0 has 1 sample, and its mean gradient is 8. Rank 1 has 3 samples, and its mean gradient is 4. "
        "What is the gradient of all four?",
        right="5",
        letter="a",
        why="It is weighted by the number of samples, (1 x 8 + 3 x 4) / 4. In the plain mean, one sample would count "
        "as much as three.",
        wrong={
            "6": "That is the mean of the two means, as plain averaging over ranks gives it. It is right only if all "
            "batches have the same size.",
            "12": "That is the sum of the two means. But the gradient of a mean loss is a mean over the samples.",
            "20": "That is the weighted sum, 1 x 8 + 3 x 4. You still have to divide it by the four samples.",
        },
        look_at="Unequal batch sizes",
    ),
    Question(
        text="How many of this model's parameters does the condition in `train_dist.py` accept?",
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
        why="A parameter is an `nn.Parameter`, a subclass of `torch.Tensor`, and `type(...) is` rejects subclasses. So "
        "that script never averages.",
        wrong={
            "Both, the weight and the bias": "`isinstance(parameter, torch.Tensor)` would accept both. `type(...) is` "
            "accepts only the class itself, not its subclasses.",
            "One, the weight alone": "The weight and the bias have the same type, `nn.Parameter`, so the condition is "
            "false for both.",
            "All eight of its values": "`parameters()` returns tensors, and there are two of them, with 6 + 2 values "
            "inside.",
        },
        look_at="Compare replicas by fingerprint",
    ),
)
