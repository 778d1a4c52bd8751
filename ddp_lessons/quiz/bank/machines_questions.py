"""Lesson 11: several machines."""

from __future__ import annotations

from ddp_lessons.quiz.question import Question

QUESTIONS = (
    Question(
        text="Three machines have 4, 2 and 8 GPUs, with a rank for each. Which rank is the first on the third machine?",
        right="6",
        letter="d",
        why="The number of all ranks on the machines before it, 4 + 2. Ranks count from 0, so it is number 6.",
        wrong={
            "2": "That is the number of the machine, its `GROUP_RANK`. The machines before it have more than one "
            "rank each.",
            "7": "It is the seventh, but the first rank is number 0, so the seventh has number 6.",
            "16": "2 x 8 would be right if each machine had eight. They have as many as they have.",
        },
        look_at="Who has which number?",
    ),
    Question(
        text="On both of two machines somebody types `torchrun --nnodes=2 --nproc-per-node=4 train.py`. What happens?",
        right="Both wait by themselves, without a word.",
        letter="a",
        why="Without a rendezvous each looks for the other at 127.0.0.1, that is, at home. The line stands in "
        "many job scripts.",
        wrong={
            "They find each other and train on 8 ranks.": "How should they? Neither was told an address of the "
            "other. That is what the endpoint is for.",
            "Each trains alone, with 4 ranks of its own.": "`--nnodes=1` would do that. With 2 each waits for a "
            "second machine before it starts any rank.",
            "Both raise an error, for no endpoint is given.": "There is a default, the address of the machine "
            "itself, so nothing seems to be missing.",
        },
        look_at="An address where nobody is",
    ),
    Question(
        text="`GLOO_SOCKET_IFNAME=lo` was right in all lessons on one machine. What does it do on two?",
        right="Each tells the other an address that leads back home.",
        letter="b",
        why="127.0.0.1 always means this machine. One rank calls there, at its own, and is refused; the other "
        "waits to be called.",
        wrong={
            "Nothing bad: gloo only uses it for ranks of one machine.": "gloo uses the interface that is named "
            "for all connections. It does not look where a rank lives.",
            "Each says at once that it has no interface of that name.": "Every machine has a loopback; an `eth7` "
            "would be missing. That is why this mistake is not seen at once.",
            "The data go through machine 0, only slower than needed.": "Nobody passes them on. An address that "
            "leads home leads nowhere else, slowly or quickly.",
        },
        look_at="The cable that gloo takes",
    ),
    Question(
        text="Two machines train, the group's timeout is 5 minutes. The cable of one is pulled out. When does the "
        "other one know?",
        right="After 5 minutes of waiting in a collective",
        letter="c",
        why="Nobody closes a connection, and silence is no message. A process that dies is another matter: its "
        "system closes, and that is heard at once.",
        wrong={
            "At once, for the connection is broken": "A connection is broken when somebody says so. Nobody is "
            "left who could; TCP goes on trying, since the cable may come back.",
            "After 30 minutes, as gloo always waits": "That is the default where nobody sets a timeout. Here it "
            "was set, and it is the only clock that runs.",
            "Never, until the job is ended by hand": "Never, if nobody had a timeout. Each collective has one, "
            "the group's.",
        },
        look_at="Somebody pulls the cable",
    ),
    Question(
        text="A job script asks Slurm for two machines and says `torchrun --nnodes=2 ... train.py`, without "
        "`srun`. Where does torchrun run?",
        right="On the first machine only",
        letter="d",
        why="The script itself runs there and nowhere else. `srun` starts a command on all machines of the job; "
        "without it the one torchrun waits for a second.",
        wrong={
            "On both, as `--nodes=2` asks": "`--nodes` says what the job may use. Nothing is started on the "
            "second machine unless `srun` does it.",
            "On both, torchrun sees to that": "An agent starts ranks on its own machine only. It never starts "
            "anything on another.",
            "Where `sbatch` was typed": "There it is only handed in. Slurm starts the script when machines are "
            "free, on the first of them.",
        },
        look_at="A cluster: Slurm",
    ),
    Question(
        text="Two machines with four GPUs each, `#SBATCH --ntasks-per-node=4`, then `srun torchrun "
        "--nproc-per-node=4 ...`. How many torchruns are started?",
        right="Eight, where two are wanted",
        letter="a",
        why="`srun` starts a torchrun for each task, and each wants to start four ranks. One task on each "
        "machine: torchrun does the rest.",
        wrong={
            "Two, one on each machine": "That takes `--ntasks-per-node=1`. Here four tasks were asked for on "
            "each, and `srun` starts the command in all of them.",
            "Four, one for each rank": "Tasks are counted for each node: four on each of two machines.",
            "One, which starts eight ranks": "So it looks from a distance, but an agent starts ranks on its own "
            "machine only, and `srun` starts one in every task.",
        },
        look_at="Exercise: four mistakes",
    ),
)
