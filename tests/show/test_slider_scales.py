"""What a slider may be set to."""

from __future__ import annotations

from ddp_lessons.show.controls.slider_scales import by_factors, by_two
from ddp_lessons.show.page.picture import show_seconds


def test_sliders_grow_by_factors_and_hold_the_given_number() -> None:
    latencies = by_factors(1e-6, 1e-4, show_seconds, 1.34e-5)
    assert list(latencies) == ["1 µs", "2 µs", "5 µs", "10 µs", "13.4 µs", "20 µs", "50 µs", "100 µs"]
    assert latencies["13.4 µs"] == 1.34e-5
    assert by_factors(1e-6, 1e-5, show_seconds, 2.001e-6)["2 µs"] == 2.001e-6
    assert by_two(8, 2048, 100) == {
        "8": 8,
        "16": 16,
        "32": 32,
        "64": 64,
        "100": 100,
        "128": 128,
        "256": 256,
        "512": 512,
        "1,024": 1024,
        "2,048": 2048,
    }
