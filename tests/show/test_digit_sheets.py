"""Digits are drawn with their labels, as many as were asked for."""

from __future__ import annotations

import pytest
import torch
from recorded import gids

from ddp_lessons import show
from ddp_lessons.show.page.picture import INK, PAPER
from ddp_lessons.train.digits import Digits
from ddp_lessons.train.mnist import mnist_folder


def some(count: int = 30) -> Digits:
    images = torch.rand(count, 1, 28, 28, generator=torch.Generator().manual_seed(0)) * 3 - 0.4
    return Digits(images, (torch.arange(count) * 3) % 10)


def words(picture: show.Picture) -> dict[str, str]:
    return {str(text.get_gid()): text.get_text() for text in picture.axes.texts}


def test_every_digit_is_there_with_its_label_under_it() -> None:
    data = some()
    picture = show.digits(data)
    assert len(picture.axes.images) == 20
    for index, image in enumerate(picture.axes.images):
        assert torch.equal(torch.as_tensor(image.get_array().data), data.images[index, 0])
        assert words(picture)[f"label {index}"] == str(int(data.labels[index]))
        left, right, bottom, _ = image.get_extent()
        label = next(text for text in picture.axes.texts if text.get_gid() == f"label {index}")
        assert left < label.get_position()[0] < right
        assert label.get_position()[1] > bottom


def test_it_takes_what_torchvision_gives() -> None:
    from torchvision import transforms
    from torchvision.datasets import MNIST

    first = MNIST(mnist_folder(), train=False, transform=transforms.ToTensor())
    assert [words(show.digits(first))[f"label {index}"] for index in range(5)] == ["7", "2", "1", "0", "4"]


def test_digits_are_ink_on_paper_and_all_the_picture_is_seen() -> None:
    picture = show.digits(some())
    image = picture.axes.images[0]
    assert image.cmap(0.0) == pytest.approx([*(int(PAPER[at : at + 2], 16) / 255 for at in (1, 3, 5)), 1], abs=0.01)
    assert image.cmap(1.0) == pytest.approx([*(int(INK[at : at + 2], 16) / 255 for at in (1, 3, 5)), 1], abs=0.01)
    width, height = picture.figure.get_size_inches() * 72
    assert picture.axes.get_xlim() == pytest.approx((0, width))
    assert picture.axes.get_ylim() == pytest.approx((height, 0))


@pytest.mark.parametrize(
    ("count", "shown", "text"), [(1, 1, "1 digit and its label"), (500, 30, "30 digits and their labels")]
)
def test_as_many_as_there_are(count: int, shown: int, text: str) -> None:
    picture = show.digits(some(), count)
    assert len(gids(picture.axes, "label")) == shown
    assert picture.text == text


def test_none_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        show.digits(some(), 0)


def test_an_empty_image_is_paper() -> None:
    blank = Digits(torch.zeros(1, 1, 28, 28), torch.zeros(1, dtype=torch.int64))
    assert show.digits(blank)._repr_mimebundle_()[0]["image/png"]
