"""The lessons' networks, against the notes' one written out with torch's functions."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ddp_lessons import launch
from ddp_lessons.train.networks import Net, QuickNet, unwrapped
from ddp_lessons.train.small_ddp import Overlapped


def as_in_the_notes(net: nn.Module, inputs: Tensor, training: bool) -> Tensor:
    w1, b1, w2, b2, w3, b3, w4, b4 = net.parameters()
    hidden = F.relu(F.max_pool2d(F.conv2d(inputs, w1, b1), 2))
    hidden = F.relu(F.max_pool2d(F.dropout2d(F.conv2d(hidden, w2, b2), training=training), 2)).view(-1, 320)
    hidden = F.dropout(F.relu(F.linear(hidden, w3, b3)), training=training)
    return F.log_softmax(F.linear(hidden, w4, b4), dim=1)


@pytest.mark.parametrize("training", [True, False])
def test_net_computes_what_the_notes_one_does(training: bool) -> None:
    net = Net().train(training)
    inputs = torch.randn(7, 1, 28, 28)
    torch.manual_seed(3)
    outputs = net(inputs)
    torch.manual_seed(3)
    assert torch.equal(outputs, as_in_the_notes(net, inputs, training))
    assert sum(parameter.numel() for parameter in net.parameters()) == 21_840


@pytest.mark.parametrize(("build", "count"), [(Net, 0), (Net, 5), (QuickNet, 0), (QuickNet, 5)])
def test_outputs_are_logarithms_of_probabilities_and_no_sample_is_no_trouble(
    build: type[nn.Module], count: int
) -> None:
    net = build()
    outputs = net(torch.randn(count, 1, 28, 28))
    assert outputs.shape == (count, 10)
    torch.testing.assert_close(outputs.exp().sum(dim=1), torch.ones(count))
    F.nll_loss(outputs, torch.zeros(count, dtype=torch.int64), reduction="sum").backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in net.parameters())


def test_a_wrapper_is_taken_off_and_nothing_else() -> None:
    def run(rank: int, world_size: int) -> list[bool]:
        net = Net()
        return [unwrapped(model) is net for model in (Overlapped(net), nn.parallel.DistributedDataParallel(net), net)]

    assert launch(run, 1)[0] == [True] * 3
    holder = nn.Module()
    holder.module = Net()  # a name alone does not make a wrapper
    assert unwrapped(holder) is holder
