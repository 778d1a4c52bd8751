"""Digits made on the spot: what the lessons train on where MNIST cannot be had.

Ten classes in 28 x 28 grey pixels, drawn from fonts that come with matplotlib, bent, turned, thickened, crossed by
strokes and covered with noise. A linear model finds them hard, a small convolutional net does not: as with MNIST.

Labels, order and every distortion are drawn from fixed seeds and are the same on every machine. The pixels hang on
arithmetic too: they are equal bit for bit, with any number of threads, as long as torch, Pillow (with its FreeType,
which turns a font's outlines into pixels) and matplotlib's fonts have the same versions on the same kind of processor.
Elsewhere an edge may be a shade of grey lighter or darker.
"""

from __future__ import annotations

import functools
import importlib.util
import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

CHUNK = 500  # digits that are made in one go; also how many have a seed in common
RECIPE = 1  # count it up when the digits change: what others have kept is then made anew
SIDE = 28

_FONTS = """DejaVuSans DejaVuSans-Bold DejaVuSans-Oblique DejaVuSans-BoldOblique DejaVuSansMono DejaVuSansMono-Bold
    DejaVuSansMono-Oblique DejaVuSerif DejaVuSerif-Bold DejaVuSerif-Italic STIXGeneral STIXGeneralBol STIXGeneralItalic
    STIXGeneralBolIta cmr10 cmb10 cmss10 cmtt10 cmti10""".split()
_FIELD = 64  # a glyph's field has so many points on a side, and the glyph is _TALL of them high
_TALL = 40


def make_digits(chunk: int, train: bool = True) -> tuple[Tensor, Tensor]:
    """Return the images [500, 28, 28] (uint8) and labels [500] (int64) of one chunk: 0 to 119, or 0 to 19 for tests."""
    generator = torch.Generator().manual_seed(1_000_003 * (1 + train) + chunk)
    uniform = functools.partial(_uniform, generator)
    labels = torch.randint(10, (CHUNK,), generator=generator)
    fonts = torch.randint(len(_FONTS), (CHUNK,), generator=generator)

    x, y = _bent_and_turned(uniform)
    scale = uniform(16.0, 21.0) / _TALL  # pixels per point of the field: the digit becomes 16 to 21 pixels high
    points = torch.stack([x / (scale * uniform(0.75, 1.25)), y / scale], dim=3) / (_FIELD / 2)
    inside = F.grid_sample(
        _fields()[fonts, labels].unsqueeze(1), points, mode="bilinear", padding_mode="border", align_corners=False
    ).squeeze(1)
    # `inside` is how deep in the digit a pixel lies, in points, negative outside: what lies deeper than an edge is ink.
    # To move the edge makes strokes thicker or thinner, and a wide edge is a soft one.
    ink = ((inside * scale + uniform(-0.2, 0.9)) / uniform(0.9, 1.8) + 0.5).clamp(0, 1)
    crossed = torch.randint(3, (CHUNK,), generator=generator) == 0
    ink[crossed] = torch.maximum(ink[crossed], _strokes(uniform)[: int(crossed.sum())])
    # Noise in the ink, and grains on the paper: where the sum is below 0 the paper stays black.
    noise = torch.rand(CHUNK, SIDE, SIDE, generator=generator) - 0.5
    grey = ink * uniform(0.6, 1.0) + noise * uniform(0.0, 0.5) - 0.05
    return (grey.clamp(0, 1) * 255).round().to(torch.uint8), labels


def _uniform(generator: torch.Generator, low: float, high: float, *shape: int) -> Tensor:
    """For every digit a number of its own, or `shape` of them: [500, 1, 1]."""
    return low + (high - low) * torch.rand(CHUNK, *(shape or (1, 1)), generator=generator)


def _bent_and_turned(uniform: Any) -> tuple[Tensor, Tensor]:
    """Where each pixel of an image comes from, in pixels from the middle of the glyph: x and y [500, 28, 28]."""
    pixels = torch.arange(SIDE) - (SIDE - 1) / 2
    bend = F.interpolate(uniform(-1.6, 1.6, 2, 4, 4), size=(SIDE, SIDE), mode="bilinear", align_corners=True)
    x = pixels + uniform(-1.5, 1.5) + bend[:, 0]
    y = pixels[:, None] + uniform(-1.5, 1.5) + bend[:, 1]
    # Turned by up to 16 degrees. Without sine and cosine, whose last digits are not the same everywhere.
    half = uniform(-0.14, 0.14)  # tan(angle / 2)
    cosine, sine = (1 - half * half) / (1 + half * half), 2 * half / (1 + half * half)
    x, y = cosine * x - sine * y, sine * x + cosine * y
    return x + uniform(-0.3, 0.3) * y, y


def _strokes(uniform: Any) -> Tensor:
    """Straight strokes, each somewhere: ink [500, 28, 28]."""
    pixels = torch.arange(SIDE, dtype=torch.float32)
    x, y = pixels - uniform(0, SIDE), pixels[:, None] - uniform(0, SIDE)  # from where the stroke begins
    to_x, to_y = uniform(-12, 12), uniform(-12, 12)
    along = ((x * to_x + y * to_y) / (to_x * to_x + to_y * to_y + 1e-3)).clamp(0, 1)  # the nearest point of the stroke
    apart = ((x - along * to_x) ** 2 + (y - along * to_y) ** 2).sqrt()
    ink: Tensor = (uniform(0.4, 1.2) - apart + 0.5).clamp(0, 1)
    ink *= uniform(0.3, 1.0)
    return ink


@functools.cache
def _fields() -> Tensor:
    """For every font and digit: how deep in the ink each point lies, negative outside [fonts, 10, 64, 64]."""
    is_ink = torch.stack([_glyph(font, digit) for font in _FONTS for digit in range(10)]) > 127
    field = _to_the_nearest(~is_ink) - _to_the_nearest(is_ink)
    field = field - 0.5 * field.sign()  # the edge lies half-way between two points
    return field.reshape(len(_FONTS), 10, _FIELD, _FIELD)


def _to_the_nearest(there: Tensor) -> Tensor:
    """The distance from every point to the nearest one that is there: first along the columns, then along the rows."""
    places = torch.arange(_FIELD, dtype=torch.float32)
    apart = (places[:, None] - places) ** 2  # [to, from]
    squares = torch.where(there, 0.0, 1e6)
    down = torch.stack([(squares + apart[to, :, None]).amin(dim=1) for to in range(_FIELD)], dim=1)
    across = torch.stack([(down + apart[to]).amin(dim=2) for to in range(_FIELD)], dim=2)
    return across.sqrt()


def _glyph(font: str, digit: int) -> Tensor:
    """The digit in the middle of 64 x 64 pixels, 40 high."""
    from PIL import Image, ImageDraw, ImageFont

    # Drawn large and then reduced, so that it hardly matters how a font fits itself to a raster.
    # The basic layout is in every Pillow; another one may be or not.
    large = ImageFont.truetype(os.fspath(fonts_folder() / f"{font}.ttf"), 200, layout_engine=ImageFont.Layout.BASIC)
    sheet = Image.new("L", (400, 400))
    ImageDraw.Draw(sheet).text((100, 100), str(digit), font=large, fill=255)
    box = sheet.getbbox()
    if box is None:
        raise RuntimeError(f"the font {font} has no digit {digit}")
    width = max(1, round((box[2] - box[0]) * _TALL / (box[3] - box[1])))
    glyph = sheet.crop(box).resize((width, _TALL), Image.Resampling.BOX)
    field = Image.new("L", (_FIELD, _FIELD))
    field.paste(glyph, ((_FIELD - width) // 2, (_FIELD - _TALL) // 2))
    return torch.frombuffer(bytearray(field.tobytes()), dtype=torch.uint8).view(_FIELD, _FIELD)


def fonts_folder() -> Path:
    """Found without importing matplotlib, which takes a second."""
    found = importlib.util.find_spec("matplotlib")
    if found is None or found.origin is None:
        raise RuntimeError("matplotlib is not installed: digits are made from the fonts that it carries")
    return Path(found.origin).parent / "mpl-data" / "fonts" / "ttf"
