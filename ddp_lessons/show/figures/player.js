// Buttons and a slider that move through the steps of a figure; between two steps the figure is in motion.

import { OWN_KEYS, button, tag } from "./marks.js"

const STEP_MS = 900

/**
 * @typedef {{steps: number, draw: (position: number) => void, tell: (step: number) => string}} Film
 */

export class Player {
  /** @param {Film} film */
  constructor(film) {
    this.film = film
    this.position = 0
    this.target = 0
    this.isPlaying = false
    this.frame = 0
    this.begun = 0
    this.isStill = matchMedia("(prefers-reduced-motion: reduce)").matches
    this.playing = button("Play", "play all steps", () => (this.isPlaying ? this.pause() : this.play()))
    this.back = button("Back", "one step back", () => this.jump(Math.ceil(this.position) - 1))
    this.step = button("Step", "one step on", () => this.forward())
    this.slider = /** @type {HTMLInputElement} */ (tag("input", { type: "range", min: 0, max: film.steps, step: 1, value: 0,
      "aria-label": "step", ...OWN_KEYS }))
    this.slider.addEventListener("input", () => this.jump(Number(this.slider.value)))
    this.slider.addEventListener("pointerup", () => this.slider.blur()) // so that Shift + Enter still runs the next cell
    this.caption = tag("div", { class: "ddp-about", "aria-live": "polite" })
    this.bar = tag("div", { class: "ddp-bar ddp-player" }, this.playing, this.back, this.step, this.slider)
    this.jump(0)
  }

  play() {
    if (this.position >= this.film.steps) this.jump(0)
    this.isPlaying = true
    this.go(this.film.steps)
  }

  pause() {
    this.isPlaying = false
    this.go(Math.ceil(this.position))
  }

  /** One step; what is still on its way arrives at once. */
  forward() {
    if (this.position % 1) this.jump(Math.ceil(this.position))
    this.isPlaying = false
    this.go(this.position + 1)
  }

  /** In motion, step by step. @param {number} step */
  go(step) {
    this.target = Math.min(Math.max(step, 0), this.film.steps)
    if (this.isStill) return this.isPlaying ? this.flip() : this.jump(this.target)
    cancelAnimationFrame(this.frame)
    this.begun = performance.now() - (this.position % 1) * STEP_MS
    this.from = Math.floor(this.position)
    this.frame = requestAnimationFrame(now => this.move(now))
    this.show()
  }

  /** @param {number} now */
  move(now) {
    const from = this.from ?? 0
    this.position = Math.min(from + Math.max(now - this.begun, 0) / STEP_MS, this.target)
    this.film.draw(this.position)
    if (Math.ceil(this.position) !== this.told) this.show()
    if (this.position < this.target) this.frame = requestAnimationFrame(later => this.move(later))
    else this.arrive()
  }

  /** Without motion: a step now and then. */
  flip() {
    clearTimeout(this.later)
    this.jump(Math.floor(this.position) + 1, true)
    if (this.position < this.target) this.later = setTimeout(() => this.isPlaying && this.flip(), 2 * STEP_MS)
    else this.arrive()
  }

  arrive() {
    this.isPlaying = false
    this.show()
  }

  /** At once. @param {number} step */
  jump(step, isPlaying = false) {
    cancelAnimationFrame(this.frame)
    this.isPlaying = isPlaying
    this.position = this.target = Math.min(Math.max(step, 0), this.film.steps)
    if (isPlaying) this.target = this.film.steps
    this.film.draw(this.position)
    this.show()
  }

  show() {
    this.told = Math.ceil(this.position) // on the way to a step, that step
    this.slider.value = String(this.told)
    this.slider.setAttribute("aria-valuetext", `${this.told} of ${this.film.steps}`)
    this.caption.textContent = this.film.tell(this.told)
    this.playing.textContent = this.isPlaying ? "Pause" : "Play"
    this.playing.setAttribute("aria-label", this.isPlaying ? "pause" : "play all steps")
    this.back.disabled = this.position <= 0
    this.step.disabled = this.position >= this.film.steps
  }

  /** The arrow keys step, and space plays. @param {KeyboardEvent} event */
  press(event) {
    if (event.target instanceof HTMLButtonElement && event.key === " ") return
    if (event.target === this.slider && event.key.startsWith("Arrow")) return event.stopPropagation()
    if (event.key === "ArrowRight") this.forward()
    else if (event.key === "ArrowLeft") this.jump(Math.ceil(this.position) - 1)
    else if (event.key === " ") this.isPlaying ? this.pause() : this.play()
    else return
    event.preventDefault()
    event.stopPropagation() // the notebook has keys of its own
  }

  end() {
    cancelAnimationFrame(this.frame)
    clearTimeout(this.later)
  }
}

/** Slow, quick, slow. @param {number} part */
export function ease(part) {
  return part < 0.5 ? 2 * part * part : 1 - (-2 * part + 2) ** 2 / 2
}
