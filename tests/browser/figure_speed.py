"""How fast the browser draws 20,000 calls: `.venv/bin/python tests/browser/figure_speed.py`.

It prints the first paint of a timeline, and the frames per second while it is moved and while a film plays.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

from ddp_lessons import show
from ddp_lessons.show.figures.living import script_of_page, style_sheet
from ddp_lessons.train.ring import ring_all_reduce

sys.path.append(str(Path(__file__).parent.parent / "show"))
from recorded import ring_steps

FIRST_PAINT = """figure => new Promise(done => {
  const began = performance.now()
  ddpFigures.mount(document.querySelector('main'), figure)
  requestAnimationFrame(() => setTimeout(() => done(performance.now() - began)))
})"""
FRAMES = """act => new Promise(done => {
  const box = document.querySelector('.ddp-scroll'), moments = []
  if (act == 'play') document.querySelector('.ddp-player button').click()
  const look = now => {
    moments.push(now)
    if (act == 'move') box.scrollLeft += 12
    if (moments.length < 121) return requestAnimationFrame(look)
    const gaps = moments.slice(1).map((moment, number) => moment - moments[number]).sort((a, b) => a - b)
    done([1000 * 120 / (moments[120] - moments[0]), gaps[114]])
  }
  requestAnimationFrame(look)
})"""


def main() -> None:
    with sync_playwright() as playwright:
        found = next(path for path in map(shutil.which, ("chromium", "google-chrome")) if path)
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 900, "height": 1000})
        page.set_content(f"<style>{style_sheet()}</style><main></main>")
        page.add_script_tag(content=script_of_page())
        many = show.timeline(ring_steps(16, 625)).document
        for _ in range(3):
            print(f"first paint of {len(many['calls']):,} calls: {page.evaluate(FIRST_PAINT, many):.0f} ms")
        for _ in range(5):
            page.get_by_role("button", name="zoom in").click()
        for what, act in (("moved at 32 times its width", "move"), ("a ring that plays", "play")):
            if act == "play":
                page.evaluate(FIRST_PAINT, show.ring(ring_all_reduce).document)
            rate, slow = page.evaluate(FRAMES, act)
            print(f"{what}: {rate:.0f} frames per second, 95 % of them within {slow:.0f} ms")
        browser.close()


if __name__ == "__main__":
    main()
