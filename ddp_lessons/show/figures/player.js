// Makes the figures of a page interactive: it shows the layout that fits, goes through steps, zooms, and describes the call
// under the pointer. It reads only an SVG's data- attributes. Each figure contains it, and the first one runs all of them.

(() => {
const PACE = 1100 // milliseconds from one step to the next while it plays
const ZOOMS = { "+": 1.5, "-": 1 / 1.5, 0: 0 } // by how much; 0 shows all
const ARROWS = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }
const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches
const within = (value, low, high) => Math.min(Math.max(value, low), high)

function tag(name, attributes = {}, ...children) {
  const element = document.createElement(name)
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value)
  element.append(...children)
  return element
}

function button(label, title, onclick) {
  return Object.assign(tag("button", { type: "button", title }, label), { onclick })
}

class Player {
  constructor(root, svg) {
    this.root = root
    this.svg = svg
    this.layouts = [...this.svg.querySelectorAll("[data-view]")]
    this.calls = [...this.svg.querySelectorAll("[data-call]")]
    this.captions = JSON.parse(this.svg.dataset.captions ?? "[]")
    this.view = this.svg.dataset.first ?? this.layouts.find(one => one.getAttribute("display") !== "none").dataset.view
    this.room = root.querySelector(".ddp-room")
    this.about = root.appendChild(tag("div", { class: "ddp-about", "aria-live": "polite" }))
    this.makeViews([...new Set(this.layouts.map(one => one.dataset.view))])
    if (this.captions.length > 1) this.makeSteps()
    if (this.calls.length) this.listenToCalls()
    this.room.addEventListener("mousedown", event => event.preventDefault()) // keep the focus: Shift + Enter runs the next cell
    new ResizeObserver(() => this.place()).observe(this.room)
    this.show(this.view)
  }

  makeViews(names) {
    this.switches = names.map(name => button(name, name, () => this.show(name)))
    this.zooms = tag("span", { class: "ddp-bar" }, button("−", "zoom out", () => this.zoom(ZOOMS["-"])),
      button("+", "zoom in", () => this.zoom(ZOOMS["+"])), button("Fit", "show everything", () => this.zoom(ZOOMS[0])))
    if (names.length > 1) this.room.before(tag("div", { class: "ddp-bar" }, ...this.switches, this.zooms))
    this.room.addEventListener("wheel", event => {
      if (!(event.ctrlKey || event.metaKey) || this.zooms.hidden) return
      event.preventDefault()
      this.zoom(Math.exp(-event.deltaY / 200), event)
    }, { passive: false })
    this.svg.addEventListener("pointermove", ({ buttons, movementX }) => {
      if (buttons && this.part < 1) this.look(this.left - movementX * this.part, this.part)
    })
  }

  show(view) {
    this.view = view
    for (const one of this.switches) one.setAttribute("aria-pressed", String(one.textContent === view))
    this.zooms.hidden = view !== this.svg.dataset.zooms
    this.place()
    this.tell()
  }

  place() {
    const mine = this.layouts.filter(one => one.dataset.view === this.view)
    const layout = mine.filter(one => parseFloat(one.dataset.size) <= this.room.clientWidth).at(-1) ?? mine[0]
    if (layout === this.layout) return
    this.layout = layout
    for (const one of this.layouts) one.setAttribute("display", one === layout ? "inline" : "none")
    ;[this.width, this.height] = layout.dataset.size.split(" ").map(Number)
    this.svg.setAttribute("width", this.width)
    this.svg.setAttribute("height", this.height)
    this.look(0, 1)
  }

  /** Zoom along the x-axis, around the pointer, the chosen call, or the middle. */
  zoom(factor, pointer) {
    const box = this.svg.getBoundingClientRect()
    const near = this.call?.getBoundingClientRect() ?? box
    const at = ((pointer?.clientX ?? near.left + near.width / 2) - box.left) / box.width
    const part = factor ? within(this.part / factor, 1 / 500, 1) : 1
    this.look(this.left + at * this.width * (this.part - part), part)
  }

  look(left, part) {
    this.part = part
    this.left = within(left, 0, this.width * (1 - part))
    this.svg.setAttribute("viewBox", `${this.left} 0 ${this.width * part} ${this.height}`)
    this.svg.setAttribute("preserveAspectRatio", "none")
    this.svg.style.setProperty("--ddp-part", part)
    this.svg.classList.toggle("ddp-zoomed", part < 1)
    for (const one of this.layout.querySelectorAll("[data-fixed]")) one.setAttribute("transform", `translate(${this.left} 0) scale(${part} 1)`)
  }

  makeSteps() {
    this.last = this.captions.length - 1
    const play = () => this.go(this.step === this.last ? 0 : this.step + 1, true)
    this.playing = button("Play", "play all steps", () => this.isPlaying ? this.go(this.step) : play())
    this.back = button("Back", "previous step", () => this.go(this.step - 1))
    this.forth = button("Step", "next step", () => this.go(this.step + 1))
    this.slider = tag("input", { type: "range", min: 0, max: this.last, step: 1, "aria-label": "step" })
    this.slider.oninput = () => this.go(Number(this.slider.value))
    this.room.before(tag("div", { class: "ddp-bar" }, this.playing, this.back, this.forth, this.slider))
    this.go(Number(this.svg.dataset.begins ?? 0))
    if (this.svg.dataset.plays && !isStill) new IntersectionObserver(([entry], observer) => {
      if (!entry.isIntersecting) return
      observer.disconnect()
      if (this.step === 0) play()
    }, { threshold: 0.6 }).observe(this.svg)
  }

  /** Go to a step. What is new in the next step moves in from its origin, or fades in. */
  go(step, isPlaying = false) {
    clearTimeout(this.timer)
    const before = this.step
    this.step = within(step, 0, this.last)
    this.isPlaying = isPlaying && this.step < this.last
    if (this.isPlaying) this.timer = setTimeout(() => this.root.isConnected && this.go(this.step + 1, true), PACE)
    const isNext = this.step === before + 1 && !isStill
    for (const one of this.step === before ? [] : this.svg.querySelectorAll("[data-since], [data-until]")) {
      const { since = 0, until = Infinity, from } = one.dataset
      for (const motion of one.getAnimations()) motion.cancel()
      one.setAttribute("visibility", since <= this.step && this.step < until ? "inherit" : "hidden")
      if (!isNext || Number(since) !== this.step) continue
      const start = from && `translate(${from.replace(" ", "px, ")}px)`
      const motion = from ? { transform: [start, "none"], visibility: ["visible", "visible"] } : { opacity: [0, 1] }
      one.animate(motion, { duration: from ? 0.8 * PACE : 0.4 * PACE, easing: "ease-in-out" })
    }
    this.tell()
  }

  listenToCalls() {
    const numberAt = event => event.target.closest("[data-call]")?.dataset.call
    this.room.addEventListener("pointermove", event => this.choose(numberAt(event) ?? this.kept))
    this.room.addEventListener("pointerleave", () => this.choose(this.kept))
    this.room.addEventListener("click", event => this.choose(this.kept = numberAt(event)))
  }

  /** The chosen call, in the visible layout. */
  get call() {
    return this.calls.find(one => one.dataset.call === this.chosen && this.layout.contains(one))
  }

  choose(number) {
    this.chosen = number
    const numbers = [number, ...(this.call?.dataset.with.split(" ") ?? [])]
    for (const one of this.calls) one.classList.toggle("ddp-chosen", numbers.includes(one.dataset.call))
    this.tell()
  }

  /** Go to the next call of the lane, or to the nearest call of another lane. */
  walk(along, across) {
    const now = this.call
    const lane = now ? Number(now.dataset.lane) + across : 0
    const mine = this.calls.filter(one => this.layout.contains(one) && Number(one.dataset.lane) === lane)
    const far = one => Math.abs(one.getBoundingClientRect().left - now.getBoundingClientRect().left)
    const next = !now ? mine[0] : along ? mine[mine.indexOf(now) + along] : mine.sort((one, other) => far(one) - far(other))[0]
    if (next) this.choose(this.kept = next.dataset.call)
  }

  tell() {
    const words = this.call?.querySelector("title").textContent ?? this.captions[this.step] ?? this.svg.dataset.hint ?? ""
    if (words !== this.about.textContent) this.about.textContent = words
    if (!this.slider) return
    this.slider.value = this.step
    this.playing.textContent = this.isPlaying ? "Pause" : "Play"
    this.back.setAttribute("aria-disabled", this.step === 0) // it keeps the focus
    this.forth.setAttribute("aria-disabled", this.step === this.last)
  }

  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey && event.key === "Enter") return
    const [along, across] = ARROWS[event.key] ?? [0, 0]
    if (event.target.matches("button, input") && (along || [" ", "Enter"].includes(event.key))) return event.stopPropagation()
    if (this.slider && along) this.go(this.step + along)
    else if (this.slider && event.key === " ") this.playing.click()
    else if (!this.slider && (along || across)) this.walk(along, across)
    else if (event.key === "Escape") this.choose(this.kept = undefined)
    else if (event.key in ZOOMS && !this.zooms.hidden) this.zoom(ZOOMS[event.key])
    else return
    event.preventDefault()
    event.stopPropagation()
  }
}

if (!globalThis.ddpFigures) { // once for all figures, and before the notebook's own keys
  const figures = globalThis.ddpFigures = new WeakMap()
  addEventListener("keydown", event => figures.get(event.target.closest?.(".ddp-figure"))?.press(event), true)
  addEventListener("pointerdown", ({ target }) => { // give the keys back to the cell
    if (!target.closest?.(".ddp-figure")) document.activeElement?.closest(".ddp-room")?.blur()
  })
}
for (const image of document.querySelectorAll(".ddp-room > img")) {
  const bytes = Uint8Array.from(atob(image.src.split(",")[1]), letter => letter.charCodeAt(0))
  const svg = new DOMParser().parseFromString(new TextDecoder().decode(bytes), "image/svg+xml").documentElement
  image.replaceWith(svg)
  svg.setAttribute("aria-hidden", "true") // the element around it has the name
  const root = svg.closest(".ddp-figure")
  if (svg.querySelector("[data-view]")) ddpFigures.set(root, new Player(root, svg)) // others are charts
}
})()
