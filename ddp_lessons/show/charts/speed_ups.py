"""The speed-up of more ranks over one: a model whose parameters are sliders, and measured points.

The limits of both axes are the same for every batch and every machine, so only the curves move.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from matplotlib.ticker import NullLocator

from ddp_lessons.run.diagnosis.wording import count
from ddp_lessons.show.charts.chart import INK, Chart, drawn_in_house_style, new_axes
from ddp_lessons.show.charts.scaling import HIGH, IDEAL, MEASURED, MODEL, Speeds, draw_speeds
from ddp_lessons.show.figures.figure import inline_of
from ddp_lessons.show.figures.formats import show_bytes, show_network, show_seconds

Model = Callable[[int, int, int, float, float], float]  # ranks, batch, cores, latency and bytes per second to speed
POWERS = tuple(2**power for power in range(7))
RANKS = tuple(sorted({*POWERS, 3, 5, 6, 7, 12, 24, 48}))
LIMITS = (1 / 4, 90.0)  # of the speed-up
BATCHES = [2**power for power in range(3, 15)]
SOME_CORES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
LATENCIES = [float(f"{digit}e{power}") for power in range(-6, -1) for digit in (1, 2, 5)]
BANDWIDTHS = [float(f"{digit}e{power}") for power in range(6, 11) for digit in (1, 2, 5)]
WHOSE = (("all ranks together (strong)", False), ("each rank (weak)", True))


@dataclass(frozen=True)
class Machine:
    """What the ranks run on, and the batch size: of all ranks together, or of each rank."""

    is_for_each: bool
    batch_size: int
    cores: int
    latency: float
    bandwidth: float

    def speed(self, model: Model, ranks: int) -> float:
        together = self.batch_size * ranks if self.is_for_each else self.batch_size
        return float(model(ranks, together, self.cores, self.latency, self.bandwidth))

    @property
    def batch(self) -> str:
        images = f"{self.batch_size:,} images"
        return f"{images} per rank" if self.is_for_each else f"a global batch of {images}"

    def __str__(self) -> str:
        return f"{self.batch}, {count(self.cores, 'core')}, {show_network(self.latency, self.bandwidth)}"


@dataclass(frozen=True, eq=False, repr=False)
class Explorer(Chart):
    """The first figure and, in a notebook with ipywidgets, controls that draw others."""

    controls: Callable[[], Any]

    def _ipython_display_(self) -> None:
        """Display one output: the controls and, for readers that can't show them, the first chart."""
        from IPython import get_ipython
        from IPython.display import publish_display_data

        try:
            controls = self.controls() if hasattr(get_ipython(), "kernel") else None
        except ImportError:
            controls = None
        if controls is None:
            super()._ipython_display_()
            return
        view = {"version_major": 2, "version_minor": 0, "model_id": controls.model_id}
        data, about = self._repr_mimebundle_()
        del data["text/html"]
        publish_display_data({"application/vnd.jupyter.widget-view+json": view, **data}, about)


def explore_scaling(
    model: Model,
    strong: Mapping[int, Speeds] | None = None,
    weak: Mapping[int, Speeds] | None = None,
    *,
    cores: int,
    latency: float,
    bandwidth: float,
) -> Chart:
    """Change a model's batch, cores and network with sliders, and see how much faster more ranks would be.

    Args:
        model: a function of the number of ranks, the global batch, the cores, the latency in seconds and the bytes per
            second that returns images per second.
        strong: what was measured with a fixed global batch, {global batch: {ranks: images per second}}.
        weak: what was measured with a fixed batch per rank, {batch per rank: {ranks: images per second}}.
        cores: this machine's number of cores; like `latency` and `bandwidth`, it is where a slider starts.

    Raises:
        ValueError: one of the numbers is impossible.
    """
    measured = {False: dict(strong or {}), True: dict(weak or {})}
    batches = [*measured[False], *measured[True]]
    first_batch = next(iter(batches), 256)
    first = Machine(not measured[False] and bool(measured[True]), first_batch, cores, latency, bandwidth)
    if not (cores >= 1 and latency >= 0 and bandwidth > 0 and first_batch >= 1):
        raise ValueError(f"batch size, cores and bandwidth must be above 0, latency at least 0, not {first}")

    def draw(**turned: Any) -> Chart:
        now = Machine(**turned)
        # so that the stored chart is the same in every run
        return speed_ups(model, now, measured[now.is_for_each].get(now.batch_size), tells_numbers=now != first)

    def controls() -> Any:
        import ipywidgets

        def slider(label: str, values: Iterable[float], value: float, show: Callable[[float], str]) -> Any:
            options = {show(number): number for number in (*values, value)}
            in_order = sorted(options.items(), key=lambda option: option[1])
            return ipywidgets.SelectionSlider(description=label, options=in_order, value=value)

        turned = {
            "is_for_each": ipywidgets.Dropdown(description="images for", options=WHOSE, value=first.is_for_each),
            "batch_size": slider("images", BATCHES + batches, first_batch, lambda number: f"{number:,}"),
            "cores": slider("cores", SOME_CORES, cores, str),
            "latency": slider("latency", LATENCIES, latency, show_seconds),
            "bandwidth": slider("bandwidth", BANDWIDTHS, bandwidth, lambda number: f"{show_bytes(number)}/s"),
        }
        picture = ipywidgets.HTML()

        def redraw(change: object = None) -> None:
            chart = draw(**{name: control.value for name, control in turned.items()})
            picture.value = inline_of(chart.svg, chart.alt)

        for control in turned.values():
            control.observe(redraw, "value")
        redraw()
        return ipywidgets.VBox([*turned.values(), picture])

    one = draw(**vars(first))
    return Explorer(one.figure, one.axes, one.text, one.alt, controls)


@drawn_in_house_style
def speed_ups(model: Model, now: Machine, measured: Speeds | None = None, tells_numbers: bool = True) -> Chart:
    """Plot a model's speed-up from 1 to 64 ranks, and the points measured with this batch size.

    With `tells_numbers`, the text contains the speeds, which differ from machine to machine.
    """
    measured = dict(sorted((measured or {}).items()))
    speeds = {ranks: now.speed(model, ranks) for ranks in RANKS}
    key = f"{MEASURED} on this machine"
    figure, axes = new_axes(0.75, 0.3, HIGH, [IDEAL, MODEL, key])
    axes.set(xscale="log", yscale="log", xlim=(1 / 1.15, RANKS[-1] * 1.15), ylim=LIMITS)
    axes.set_ylabel("speed-up over one rank")
    axes.set_xticks(POWERS, [str(number) for number in POWERS], color=INK)
    axes.set_yticks([0.5, *POWERS], ["1/2", *map(str, POWERS)])
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())
    times = {ranks: speed / speeds[1] for ranks, speed in speeds.items()}
    draw_speeds(axes, key, _relative(measured), times, 1.0, now.cores, parts=POWERS[1:])
    if tells_numbers:
        return Chart(figure, axes, _table(speeds, measured, now), _describe(speeds, measured, now))
    points = f", and measurements with a world size of {', '.join(map(str, measured))}" if measured else ""
    text = f"Speed-up of 1 to {RANKS[-1]} ranks over one rank, with {now.batch}: a model{points}."
    return Chart(figure, axes, text, text)


def _relative(measured: Speeds) -> Speeds:
    """As multiples of one rank's speed: the speed of the fewest ranks, divided by their number."""
    one = next((speed / ranks for ranks, speed in measured.items()), 1.0)
    return {ranks: speed / one for ranks, speed in measured.items()}


def _table(speeds: Speeds, measured: Speeds, now: Machine) -> str:
    relative = _relative(measured)
    lines = [
        f"{now}; predicted by the model:",
        "ranks | images per second |       speed-up | % of ideal | measured speed-up",
    ]
    for ranks in (number for number in RANKS if number in POWERS or number in measured):
        times = speeds[ranks] / speeds[1]
        point = f"{relative[ranks]:.3g}" if ranks in relative else ""
        line = f"{ranks:5} | {speeds[ranks]:17,.0f} | {times:14.3g} | {100 * times / ranks:10.0f} | {point}"
        lines.append(line.rstrip(" |"))
    return "\n".join([*lines, _best(speeds)])


def _describe(speeds: Speeds, measured: Speeds, now: Machine) -> str:
    told = ", ".join(f"{speeds[ranks] / speeds[1]:.2g}x with {ranks} ranks" for ranks in (2, 4, 16, 64))
    points = ", ".join(f"{times:.2g}x with {ranks} ranks" for ranks, times in _relative(measured).items() if ranks > 1)
    return f"{now}. Predicted speed-up: {told}. {_best(speeds)}" + f" Measured: {points}." * bool(points)


def _best(speeds: Speeds) -> str:
    best = max(speeds, key=lambda ranks: speeds[ranks])
    if best == RANKS[-1]:
        return "Throughput keeps rising up to 64 ranks." if _only_rises(speeds) else "It is fastest with 64 ranks."
    return "One rank is fastest." if best == 1 else f"It is fastest with {best} ranks."


def _only_rises(speeds: Speeds) -> bool:
    in_order = [speeds[ranks] for ranks in RANKS]
    return in_order == sorted(in_order)
