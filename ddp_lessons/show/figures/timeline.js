// A lane for each rank with its calls, by steps (each call of equal width) or by time, which can be zoomed and moved.

import { OWN_KEYS, arrowHead, boxPath, button, duration, f, freshName, inkOn, mark, rankColor, tag, widthOf } from "./marks.js"

/**
 * @typedef {{rank: number, name: string, kind: string, step: number, begin: number, end: number, state?: string,
 *   parts: [number, number, string, number][], load: string, place: string, waited: number, moved: number}} Call
 * @typedef {{send: number, recv: number, begin: number, end: number, load: string}} Message
 * @typedef {{calls: number[], name: string, missing: number[], is_odd: boolean, is_ddps: boolean}} Collective
 * @typedef {{rank: number, label: string, begin: number, end: number}} Phase
 * @typedef {{kind: string, title: string, alt: string, ranks: number, axis: "steps" | "time", span: number, calls: Call[],
 *   messages: Message[], collectives: Collective[], phases: Phase[], computing: [number, number, number, number][],
 *   warnings: {rank: number, text: string}[], notes: string[], caption?: string}} Timeline of computing: the rank, from, to, and its part of a CPU
 * @typedef {[number, number, number, number, string]} Arrow from x, y to x, y, in a color
 * @typedef {{top: number, main: number, height: number}} Lane
 */

const TEXT = 12 // pixels, at any width
const LABELS = 16 // the strip below a bar for a name that does not fit into it
const BAR = 22
const CHIP = 26
const ROW = 16 // of a call in the background
const PHASE = 18
const GAP = 26 // between two steps, for the arrows
const AXIS = 24
const MOST_PHASES = 8 // in the key
const MOST_MESSAGES = 2000 // in sight; more would hide all else
const WIDEST = 1 << 17 // pixels
const COLORS = { collective: "#64748B", ddp: "#8B5FB8" } // to be seen on a light and on a dark page
const PHASE_COLORS = ["#CBD8E5", "#8FB0CC", "#4B5561", "#D3D8DE", "#3A709D", "#A9B2BD"]

/** @param {HTMLElement} element @param {Timeline} figure @returns {() => void} what ends it */
export function mountTimeline(element, figure) {
  const timeline = new TimelineView(element, figure)
  return () => timeline.end()
}

class TimelineView {
  /** @param {HTMLElement} element @param {Timeline} figure */
  constructor(element, figure) {
    this.figure = figure
    this.id = freshName()
    this.axis = figure.axis
    this.zoom = 1
    /** @type {number | null} */
    this.chosen = null
    /** @type {number | undefined} what was clicked, or reached by keys */
    this.kept = undefined
    /** @type {Lane[]} */
    this.lanes = []
    this.drawn = { from: 0, to: 0 }
    this.width = 0
    this.height = 0
    this.family = getComputedStyle(element).fontFamily || "sans-serif"
    /** @type {number[][]} */
    this.byRank = Array.from({ length: figure.ranks }, () => [])
    figure.calls.forEach((call, number) => this.byRank[call.rank].push(number))
    this.members = membersOf(figure)
    this.labelsOfPhases = [...new Set(figure.phases.map(phase => phase.label))]
    this.columns = columnsOf(figure, text => widthOf(text, TEXT, this.family))
    this.content = mark("g")
    this.overlay = mark("g")
    this.svg = mark("svg", { class: "ddp-lanes", "aria-hidden": "true" }, hatches(this.id, [...new Set(figure.calls.map(colorOf))]),
      this.content, this.overlay)
    this.scroll = tag("div", { class: "ddp-scroll", tabindex: 0, role: "group", "aria-label": howToRead(figure),
      ...OWN_KEYS }, this.svg)
    this.names = tag("div", { class: "ddp-names", "aria-hidden": "true" })
    this.about = tag("div", { class: "ddp-about", "aria-live": "polite" })
    this.switches = {
      steps: button("Steps", "one column for each step, in the program's order", () => this.show("steps")),
      time: button("Time", "as long as it took", () => this.show("time")),
    }
    this.zooms = tag("span", { class: "ddp-zoom" },
      button("−", "zoom out", () => this.zoomBy(1 / 2)), button("+", "zoom in", () => this.zoomBy(2)),
      button("Fit", "show all of it", () => this.zoomBy(0)))
    const bar = tag("div", { class: "ddp-bar" }, tag("strong", {}, figure.title),
      tag("span", { class: "ddp-switch", role: "group", "aria-label": "horizontal axis" }, this.switches.steps, this.switches.time),
      this.zooms)
    this.key = tag("div", { class: "ddp-key" })
    const notes = [...figure.warnings.map(one => `rank ${one.rank} ${one.text}`), ...figure.notes]
    this.body = tag("div", { class: "ddp-body" }, this.names, this.scroll)
    this.root = tag("div", { class: "ddp-figure", role: "figure", "aria-label": figure.alt }, bar,
      this.body, this.about, this.key,
      ...(notes.length ? [tag("ul", { class: "ddp-warnings" }, ...notes.map(note => tag("li", {}, note)))] : []),
      ...(figure.caption ? [tag("div", { class: "ddp-key" }, figure.caption)] : []))
    element.replaceChildren(this.root)
    this.listen()
    this.show(this.axis)
  }

  listen() {
    let asked = false
    const later = () => {
      if (asked) return
      asked = true
      requestAnimationFrame(() => { asked = false; if (this.isOutside()) this.draw() })
    }
    this.scroll.addEventListener("scroll", () => { later(); this.hintAtMore() })
    this.scroll.addEventListener("pointermove", event => this.point(event))
    this.scroll.addEventListener("pointerleave", () => this.choose(this.kept ?? null))
    this.scroll.addEventListener("click", event => { this.kept = this.callAt(event) ?? undefined; this.choose(this.kept ?? null) })
    this.scroll.addEventListener("keydown", event => this.press(event))
    // a click leaves the focus where it is, so that Shift + Enter still runs the next cell
    this.svg.addEventListener("mousedown", event => event.preventDefault())
    this.leave = (/** @type {Event} */ event) => { if (!this.root.contains(/** @type {Node} */ (event.target))) this.scroll.blur() }
    document.addEventListener("pointerdown", this.leave)
    this.scroll.addEventListener("wheel", event => {
      if (!(event.ctrlKey || event.metaKey) || this.axis !== "time") return
      event.preventDefault()
      this.zoomBy(Math.exp(-event.deltaY / 200), event.clientX - this.scroll.getBoundingClientRect().left)
    }, { passive: false })
    this.resized = new ResizeObserver(() => { if (this.scroll.clientWidth !== this.room) this.place() })
    this.resized.observe(this.scroll)
  }

  end() {
    this.resized?.disconnect()
    if (this.leave) document.removeEventListener("pointerdown", this.leave)
    this.root.remove()
  }

  /** @param {"steps" | "time"} axis */
  show(axis) {
    this.axis = axis
    for (const [name, one] of Object.entries(this.switches)) one.setAttribute("aria-pressed", String(name === axis))
    this.zooms.hidden = axis === "steps"
    this.lanes = lanesOf(this.figure, axis)
    this.zoom = 1
    this.scroll.scrollLeft = 0
    this.name()
    this.place()
    this.about.textContent = "" // another axis, another hint
    this.choose(this.kept ?? null)
  }

  name() {
    const { ranks } = this.figure
    this.names.replaceChildren(...this.lanes.map((lane, rank) => {
      const chip = tag("span", { class: "ddp-rank" }, ranks > 99 ? String(rank) : `rank ${rank}`)
      chip.style.setProperty("--rank", rankColor(rank))
      chip.style.top = `${lane.main}px`
      return chip
    }))
    this.height = this.lanes.reduce((sum, lane) => sum + lane.height, 0)
    this.names.style.height = `${this.height + (this.axis === "time" ? AXIS : 6)}px`
    this.key.replaceChildren(...keyOf(this.figure, this.axis))
  }

  /** Gives the lanes the width that there is. */
  place() {
    this.room = this.scroll.clientWidth
    const room = this.room || 600
    this.width = this.axis === "steps" ? Math.max(room, this.columns.end) : Math.min(WIDEST, room * this.zoom)
    const height = this.height + (this.axis === "time" ? AXIS : 6)
    for (const [key, value] of Object.entries({ width: this.width, height })) this.svg.setAttribute(key, String(value))
    this.draw()
    this.hintAtMore()
  }

  /** A fading edge where the lanes go on. */
  hintAtMore() {
    const { scrollLeft, clientWidth, scrollWidth } = this.scroll
    this.body.classList.toggle("ddp-more", scrollLeft + clientWidth < scrollWidth - 4)
  }

  /** @param {number} factor 0: all of it @param {number} [at] pixels from the left edge that stay where they are */
  zoomBy(factor, at = this.middleOfChosen()) {
    const moment = (this.scroll.scrollLeft + at) / this.width
    const most = WIDEST / (this.scroll.clientWidth || 600)
    this.zoom = factor ? Math.min(Math.max(this.zoom * factor, 1), most) : 1
    this.place()
    this.scroll.scrollLeft = moment * this.width - at
    this.draw()
  }

  /** Of the chosen call, as far as it is in sight; else of all that is in sight. */
  middleOfChosen() {
    const room = this.scroll.clientWidth
    const [left, right] = this.chosen === null ? [0, 0] : this.spanOf(this.chosen).map(x => Math.min(Math.max(x - this.scroll.scrollLeft, 0), room))
    return right > left ? (left + right) / 2 : room / 2
  }

  /** @param {KeyboardEvent} event */
  press(event) {
    const moves = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }
    if (event.key in moves) {
      const [along, across] = moves[/** @type {keyof moves} */ (event.key)]
      this.walk(along, across)
    } else if (event.key === "+" || event.key === "=") this.axis === "time" && this.zoomBy(2)
    else if (event.key === "-") this.axis === "time" && this.zoomBy(1 / 2)
    else if (event.key === "0") this.zoomBy(0)
    else if (event.key === "Escape") { this.kept = undefined; this.choose(null); this.scroll.blur() }
    else return
    event.preventDefault()
    event.stopPropagation() // the notebook has keys of its own
  }

  /** To the next call of a rank, or to another rank. @param {number} along @param {number} across */
  walk(along, across) {
    const { calls } = this.figure
    const now = this.chosen
    if (now === null) {
      this.kept = this.byRank.flat()[0]
    } else if (along) {
      const mine = this.byRank[calls[now].rank]
      this.kept = mine[Math.min(Math.max(mine.indexOf(now) + along, 0), mine.length - 1)]
    } else {
      const ranks = this.byRank.map((_, rank) => rank).filter(rank => this.byRank[rank].length)
      const to = ranks[ranks.indexOf(calls[now].rank) + across]
      if (to !== undefined) this.kept = nearest(this.byRank[to], number => Math.abs(calls[number].begin - calls[now].begin))
    }
    if (this.kept === undefined) return
    const [left, right] = this.spanOf(this.kept)
    if (left < this.scroll.scrollLeft || right > this.scroll.scrollLeft + this.scroll.clientWidth)
      this.scroll.scrollLeft = left - this.scroll.clientWidth / 3
    this.choose(this.kept)
  }

  /** @param {PointerEvent} event */
  point(event) {
    const there = this.callAt(event)
    if (there !== null || this.kept === undefined) this.choose(there ?? null)
  }

  /** The call under the pointer, or one so near that it was meant. @param {MouseEvent} event @returns {number | null} */
  callAt(event) {
    const box = this.svg.getBoundingClientRect()
    const [x, y] = [event.clientX - box.left, event.clientY - box.top]
    const rank = this.lanes.findIndex(lane => y >= lane.top && y < lane.top + lane.height)
    if (rank < 0) return null
    const near = this.byRank[rank].filter(number => {
      const [left, right] = this.spanOf(number)
      return x >= left - 4 && x <= right + 4
    })
    const { calls } = this.figure
    const row = Math.floor((y - this.lanes[rank].main - BAR - LABELS) / ROW) + 1
    const inRow = near.filter(number => calls[number].parts.some(part => part[3] === row && row > 0))
    const found = nearest(inRow.length && this.axis === "time" ? inRow : near, number => {
      const [left, right] = this.spanOf(number)
      return Math.abs(x - (left + right) / 2) + (right - left) / 100
    })
    return found ?? null
  }

  /** @param {number} number @returns {[number, number]} pixels */
  spanOf(number) {
    const call = this.figure.calls[number]
    if (this.axis === "steps") {
      const left = this.columns.left[call.step]
      return [left, left + this.columns.width[call.step]]
    }
    return [this.x(call.begin), Math.max(this.x(call.end), this.x(call.begin) + 1.5)]
  }

  /** @param {number} time @returns {number} */
  x(time) {
    return 4 + (time / (this.figure.span || 1)) * (this.width - 10)
  }

  /** @param {number | null} number */
  choose(number) {
    if (number === this.chosen && this.about.textContent) return
    this.chosen = number
    this.about.textContent = number === null ? hint(this.figure, this.axis) : tell(this.figure, number, this.members)
    this.overlay.replaceChildren(...this.chosenOnes())
  }

  /** Has it been moved to where little or nothing is drawn? */
  isOutside() {
    const [left, room] = [this.scroll.scrollLeft, this.scroll.clientWidth]
    return left < this.drawn.from + room / 4 && this.drawn.from > 0 || left + room > this.drawn.to - room / 4 && this.drawn.to < this.width
  }

  /** What can be seen, and as much on both sides, so that it can be moved without drawing. */
  draw() {
    if (!this.width) return
    const [left, room] = [this.scroll.scrollLeft, this.scroll.clientWidth || this.width]
    const view = this.drawn = { from: left - room, to: left + 2 * room }
    const marks = this.axis === "steps" ? this.drawSteps(view) : this.drawTime(view)
    this.content.replaceChildren(...this.bands(), ...marks)
    this.overlay.replaceChildren(...this.chosenOnes())
  }

  bands() {
    return this.lanes.flatMap((lane, rank) => {
      const middle = lane.main + (this.axis === "steps" ? CHIP : BAR) / 2
      const line = mark("line", { x1: 0, x2: this.width, y1: middle, y2: middle, class: "ddp-line" })
      const band = { x: 0, y: lane.top, width: this.width, height: lane.height, class: rank % 2 ? "ddp-paper" : "ddp-band" }
      return [mark("rect", band), line]
    })
  }

  chosenOnes() {
    if (this.chosen === null) return []
    const { calls } = this.figure
    return [...new Set([this.chosen, ...(this.members.get(this.chosen) ?? [])])].map(number => {
      const [left, right] = this.spanOf(number)
      const lane = this.lanes[calls[number].rank]
      const row = this.axis === "time" ? calls[number].parts[calls[number].parts.length - 1][3] : 0
      const [y, height] = row ? [rowTop(lane, row), ROW - 2] : [lane.main, this.axis === "steps" ? CHIP : BAR]
      return mark("rect", { x: left - 3, y: y - 3, width: right - left + 6, height: height + 6, rx: 5, class: "ddp-chosen" })
    })
  }

  /** @param {{from: number, to: number}} view @returns {SVGElement[]} */
  drawSteps(view) {
    const { calls, messages, collectives } = this.figure
    const isSeen = (/** @type {number} */ number) => {
      const [left, right] = this.spanOf(number)
      return right >= view.from && left <= view.to
    }
    const middle = (/** @type {Call} */ call) => this.lanes[call.rank].main + CHIP / 2
    const links = collectives.filter(one => one.calls.length > 1 && one.calls.some(isSeen)).map(one => {
      const ends = [one.calls[0], one.calls[one.calls.length - 1]]
      const xs = ends.map(number => { const [left, right] = this.spanOf(number); return (left + right) / 2 })
      const look = one.is_odd ? "ddp-link ddp-odd" : "ddp-link"
      return mark("line", { x1: xs[0], y1: middle(calls[ends[0]]), x2: xs[1], y2: middle(calls[ends[1]]), class: look,
        stroke: one.is_odd ? undefined : colorOf(calls[one.calls[0]]) })
    })
    const missing = collectives.filter(one => isSeen(one.calls[0])).flatMap(one => one.missing.map(rank => this.noCall(one, rank)))
    const chips = calls.flatMap((call, number) => (isSeen(number) ? this.chip(call, number) : []))
    const arrows = arrowsOf(messages.filter(one => isSeen(one.send) || isSeen(one.recv)).map(/** @returns {Arrow} */ one => {
      const [[, x0], [x1]] = [this.spanOf(one.send), this.spanOf(one.recv)]
      return [x0, middle(calls[one.send]), x1, middle(calls[one.recv]), rankColor(calls[one.send].rank)]
    }))
    const loads = calls.filter((_, number) => isSeen(number)).flatMap(call => this.load(call))
    return [...links, ...missing.flat(), ...chips, ...arrows.shafts, ...loads, ...arrows.heads]
  }

  /** Where a rank did not make a call that the others wait for. @param {Collective} one @param {number} rank */
  noCall(one, rank) {
    const [[left, right], y] = [this.spanOf(one.calls[0]), this.lanes[rank].main]
    return [
      mark("rect", { x: left, y, width: right - left, height: CHIP, rx: 5, class: "ddp-missing" }),
      mark("text", { x: (left + right) / 2, y: y + CHIP / 2 + 4, "text-anchor": "middle", class: "ddp-alarm" }, "no call"),
    ]
  }

  /** Below a send, what it sends. @param {Call} call */
  load(call) {
    const isSend = call.name.startsWith("send") || call.name.startsWith("isend")
    const at = { x: this.columns.left[call.step], y: this.lanes[call.rank].main + CHIP + 13, class: "ddp-faint ddp-halo" }
    return isSend && call.load ? [mark("text", at, call.load)] : []
  }

  /** A call as a box with its name. @param {Call} call @param {number} number */
  chip(call, number) {
    const [left, right] = this.spanOf(number)
    const y = this.lanes[call.rank].main
    const isBroken = Boolean(call.state)
    const color = colorOf(call)
    const box = mark("rect", { x: left, y, width: right - left, height: CHIP, rx: 5, fill: isBroken ? undefined : color,
      class: isBroken ? "ddp-broken" : undefined })
    const name = mark("text", { x: (left + right) / 2, y: y + CHIP / 2 + 4, "text-anchor": "middle",
      class: isBroken ? "ddp-alarm ddp-halo" : undefined, fill: isBroken ? undefined : inkOn(color) }, call.name)
    const waits = { x: left, y, width: right - left, height: CHIP, rx: 5, fill: `url(#${this.id}-never)` }
    const hatched = call.state === "waits forever" ? [mark("rect", waits)] : []
    return [box, ...hatched, name]
  }

  /** @param {{from: number, to: number}} view @returns {SVGElement[]} */
  drawTime(view) {
    const { calls, messages, collectives, phases } = this.figure
    const isSeen = (/** @type {{begin: number, end: number}} */ one) => this.x(one.end) >= view.from && this.x(one.begin) <= view.to
    const seen = calls.filter(isSeen)
    const bars = this.bars(seen, view)
    const shapes = collectives.filter(one => one.calls.length > 1 && one.calls.some(number => isSeen(calls[number])))
      .map(one => this.shape(one))
    const shown = messages.filter(isSeen)
    const arrows = arrowsOf(shown.length > MOST_MESSAGES ? [] : shown.map(/** @returns {Arrow} */ one => {
      const [sender, receiver] = [calls[one.send], calls[one.recv]]
      const down = receiver.rank > sender.rank
      return [this.x(one.begin), this.edge(sender, down), this.x(one.end), this.edge(receiver, !down), rankColor(sender.rank)]
    }))
    const strips = phases.filter(isSeen).flatMap(one => this.phase(one, view))
    return [this.computing(view), ...shapes, ...strips, ...bars, ...arrows.shafts, ...this.labels(seen, view), ...arrows.heads, ...this.ticks(view)]
  }

  /** Those that are so thin that they touch are drawn as one. @param {Call[]} seen @param {{from: number, to: number}} view */
  bars(seen, view) {
    /** @type {Map<string, [number, number][]>} by look, color, rank and row, from left to right */
    const spans = new Map()
    for (const call of seen) {
      for (const [begin, end, look, row] of call.parts) {
        const place = `${look} ${colorOf(call)} ${call.rank} ${row}`
        const x = Math.max(this.x(begin), view.from)
        const right = Math.max(Math.min(this.x(end), view.to), x + (look === "call" ? 3 : 1.2))
        const mine = spans.get(place) ?? []
        if (!mine.length) spans.set(place, mine)
        const last = mine[mine.length - 1]
        if (last && right - x < 2 && x - last[1] < 0.5) last[1] = Math.max(last[1], right)
        else mine.push([x, right])
      }
    }
    return [...spans].flatMap(([place, mine]) => {
      const [look, color, rank, row] = place.split(" ")
      const lane = this.lanes[Number(rank)]
      const [y, height] = Number(row) ? [rowTop(lane, Number(row)), ROW - 2] : [lane.main, BAR]
      return bar(this.id, look, color, mine.map(([x, right]) => boxPath(x, y, right - x, height)).join(""))
    })
  }

  /** As high as the part of the time that the rank was on a CPU; together, where they are narrower than a pixel.
   * @param {{from: number, to: number}} view */
  computing(view) {
    /** @type {[number, number, number, number][]} */
    const spans = []
    for (const [rank, begin, end, share] of this.figure.computing) {
      const [x, right] = [this.x(begin), this.x(end)]
      if (right < view.from || x > view.to) continue
      const last = spans.at(-1)
      if (last && last[0] === rank && right - last[1] < 1) [last[2], last[3]] = [right, last[3] + (right - x) * share]
      else spans.push([rank, x, right, (right - x) * share])
    }
    const d = spans.map(([rank, x, right, filled]) => {
      const height = BAR * filled / Math.max(right - x, 1e-9)
      return boxPath(x, this.lanes[rank].main + (BAR - height) / 2, Math.max(right - x, 0.5), height)
    })
    return mark("path", { d: d.join(""), class: "ddp-computing" })
  }

  /** Where a message leaves or enters the lane of a rank. @param {Call} call @param {boolean} isBelow @returns {number} */
  edge(call, isBelow) {
    const lane = this.lanes[call.rank]
    const row = Math.max(...call.parts.map(part => part[3]))
    const [y, height] = row ? [rowTop(lane, row), ROW - 2] : [lane.main, BAR]
    return isBelow ? y + height : y
  }

  /** A collective behind its bars, from every begin to every end. @param {Collective} one */
  shape(one) {
    const members = one.calls.map(number => this.figure.calls[number])
    const middle = (/** @type {Call} */ call) => this.lanes[call.rank].main + BAR / 2
    const down = members.map(call => `${f(this.x(call.begin))} ${f(middle(call))}`)
    const up = [...members].reverse().map(call => `${f(this.x(call.end))} ${f(middle(call))}`)
    return mark("path", { d: `M${[...down, ...up].join("L")}Z`, class: one.is_odd ? "ddp-shape ddp-odd" : "ddp-shape",
      fill: one.is_ddps ? COLORS.ddp : COLORS.collective })
  }

  /** @param {Phase} one @param {{from: number, to: number}} view */
  phase(one, view) {
    const color = PHASE_COLORS[this.labelsOfPhases.indexOf(one.label) % PHASE_COLORS.length]
    const [x, right, y] = [this.x(one.begin), this.x(one.end), this.lanes[one.rank].top + 3]
    const box = mark("rect", { x: x + 0.5, y, width: Math.max(right - x - 1, 0.5), height: PHASE - 3, rx: 2, fill: color })
    const [left, end] = [Math.max(x, view.from), Math.min(right, view.to)]
    const places = widthOf(one.label, TEXT, this.family) + 6 < end - left ? along(left, end) : []
    return [box, ...places.map(at => mark("text", { x: at, y: y + 12, "text-anchor": "middle", fill: inkOn(color) }, one.label))]
  }

  /** Names inside of bars where they fit, else below them where nothing is yet. */
  labels(/** @type {Call[]} */ seen, /** @type {{from: number, to: number}} */ view) {
    /** @type {Map<number, number>} */
    const taken = new Map()
    const labels = []
    for (const call of seen) {
      const width = widthOf(call.name, TEXT, this.family)
      const lane = this.lanes[call.rank]
      const widest = call.parts.filter(part => part[3] > 0 || !call.parts.some(other => other[3] > 0))
        .reduce((one, other) => (other[1] - other[0] > one[1] - one[0] ? other : one), call.parts[0])
      const [begin, end, look, row] = widest
      const [left, right] = [Math.max(this.x(begin), view.from), Math.min(this.x(end), view.to)]
      const y = row ? rowTop(lane, row) + ROW / 2 + 3 : lane.main + BAR / 2 + 4
      if (width + 8 < right - left) {
        const isFilled = look === "move" || look === "travel"
        for (const x of along(left, right)) labels.push(mark("text", { x, y, "text-anchor": "middle",
          class: isFilled ? undefined : "ddp-halo", fill: isFilled ? inkOn(colorOf(call)) : undefined }, call.name))
        continue
      }
      const at = Math.min(this.x(call.begin), this.width - width - 4)
      if (at < (taken.get(call.rank) ?? 0) || at < view.from) continue
      taken.set(call.rank, at + width + 6)
      labels.push(mark("text", { x: at, y: lane.main + BAR + 13, class: call.state ? "ddp-alarm ddp-halo" : "ddp-halo" }, call.name))
    }
    for (const call of seen) {
      if (!call.parts.some(part => part[2] === "call")) continue
      for (const [begin, end, look, row] of call.parts) {
        if (row || look === "call" || this.x(end) - this.x(begin) < 40) continue
        labels.push(mark("text", { x: (this.x(begin) + this.x(end)) / 2, y: this.lanes[call.rank].main + BAR / 2 + 4, "text-anchor": "middle",
          class: look === "move" ? undefined : "ddp-halo", fill: look === "move" ? inkOn(colorOf(call)) : undefined }, "wait"))
      }
    }
    return labels
  }

  /** @param {{from: number, to: number}} view */
  ticks(view) {
    const perPixel = (this.figure.span || 1) / (this.width - 10)
    const size = niceStep(perPixel * 90)
    const unit = this.figure.span >= 2000 ? 1000 : this.figure.span >= 2 ? 1 : 0.001
    const name = { 1000: "s", 1: "ms", 0.001: "µs" }[unit]
    const y = this.height
    const marks = [mark("line", { x1: 0, x2: this.width, y1: y + 0.5, y2: y + 0.5, class: "ddp-line" })]
    const first = Math.max(0, Math.ceil(((view.from - 4) * perPixel) / size))
    for (let tick = first; tick * size <= this.figure.span && this.x(tick * size) < view.to; tick++) {
      const x = this.x(tick * size)
      marks.push(mark("line", { x1: x, x2: x, y1: y, y2: y + 5, class: "ddp-line" }))
      marks.push(mark("text", { x, y: y + 18, class: "ddp-faint",
        "text-anchor": x + 30 > this.width ? "end" : tick ? "middle" : "start" }, `${Number((tick * size / unit).toPrecision(6))} ${name}`))
    }
    return marks
  }
}

/** @param {Timeline} figure @returns {Map<number, number[]>} by the number of a call, the others that belong to it */
function membersOf(figure) {
  const members = new Map()
  for (const one of figure.collectives) for (const number of one.calls) members.set(number, one.calls)
  for (const one of figure.messages) {
    members.set(one.send, [one.send, one.recv])
    members.set(one.recv, [one.send, one.recv])
  }
  return members
}

/** The left edge and the width of each step's column. @param {Timeline} figure @param {(text: string) => number} measure */
function columnsOf(figure, measure) {
  /** @type {number[]} */
  const width = []
  for (const call of figure.calls) width[call.step] = Math.max(width[call.step] ?? 44, measure(call.name) + 16)
  const left = []
  let end = 8
  for (let step = 1; step < width.length; step++) {
    left[step] = end
    end += (width[step] ?? 0) + GAP
  }
  return { left, width, end }
}

/** @param {Timeline} figure @param {"steps" | "time"} axis @returns {Lane[]} */
function lanesOf(figure, axis) {
  let top = 0
  const above = axis === "time" && figure.phases.length ? PHASE + 2 : 6
  const rows = new Array(figure.ranks).fill(0)
  for (const call of figure.calls) for (const part of call.parts) rows[call.rank] = Math.max(rows[call.rank], part[3])
  return rows.map(most => {
    const height = above + (axis === "steps" ? CHIP + 20 : BAR + LABELS + most * ROW + 4)
    const lane = { top, main: top + above, height }
    top += height
    return lane
  })
}

/** @param {Lane} lane @param {number} row */
function rowTop(lane, row) {
  return lane.main + BAR + LABELS + (row - 1) * ROW
}

/** @param {Call} call @returns {string} */
function colorOf(call) {
  return call.kind === "message" ? rankColor(call.rank) : call.kind === "ddp" ? COLORS.ddp : COLORS.collective
}

/** All boxes of one look and color in a lane as one mark, or two: thousands are drawn at once.
 * @param {string} id of the patterns @param {string} look @param {string} color @param {string} d */
function bar(id, look, color, d) {
  if (look === "never") return [mark("path", { d, class: "ddp-broken" }), mark("path", { d, fill: `url(#${id}-never)` })]
  if (look === "call") return [mark("path", { d, class: "ddp-starts", stroke: color })]
  const isWaiting = look === "wait" || look === "open"
  if (!isWaiting) return [mark("path", { d, fill: color, stroke: color, "stroke-width": 0.5 })]
  return [mark("path", { d, class: "ddp-waits", stroke: color }), mark("path", { d, fill: `url(#${id}-${color.slice(1)})` })]
}

/** A pattern for each color, since a pattern does not know who uses it. @param {string} id @param {string[]} colors */
function hatches(id, colors) {
  const stripe = (/** @type {string} */ name, /** @type {string | undefined} */ stroke) =>
    mark("pattern", { id: `${id}-${name}`, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
      mark("line", { x1: 0, y1: 0, x2: 0, y2: 6, stroke, class: stroke ? "ddp-stripe" : "ddp-stripe ddp-alarm-stroke" }))
  return mark("defs", {}, stripe("never", undefined), ...colors.map(color => stripe(color.slice(1), color)))
}

/** All arrows of a color as one line and one mark for their heads, which no label may cover. @param {Arrow[]} arrows */
function arrowsOf(arrows) {
  /** @type {Map<string, {lines: string[], heads: string[]}>} */
  const byColor = new Map()
  for (const [x0, y0, x1, y1, color] of arrows) {
    const paths = byColor.get(color) ?? { lines: [], heads: [] }
    byColor.set(color, paths)
    paths.lines.push(`M${f(x0)} ${f(y0)}L${f(x1)} ${f(y1)}`)
    paths.heads.push(arrowHead(x0, y0, x1, y1))
  }
  return {
    shafts: [...byColor].flatMap(([color, { lines }]) => [
      mark("path", { d: lines.join(""), class: "ddp-under" }),
      mark("path", { d: lines.join(""), stroke: color, "stroke-width": 2 }),
    ]),
    heads: [...byColor].map(([color, { heads }]) => mark("path", { d: heads.join(""), fill: color })),
  }
}

/** Where a name is written in a bar: in its middle, and again and again in a long one. @param {number} left @param {number} right */
function along(left, right) {
  const times = Math.max(1, Math.round((right - left) / 600))
  return Array.from({ length: times }, (_, turn) => left + ((turn + 0.5) * (right - left)) / times)
}

/** @param {number[]} numbers @param {(number: number) => number} distance @returns {number | undefined} */
function nearest(numbers, distance) {
  let best
  let least = Infinity
  for (const number of numbers) {
    const far = distance(number)
    if (far < least) [best, least] = [number, far]
  }
  return best
}

/** 1, 2 or 5 times a power of ten. @param {number} atLeast @returns {number} */
function niceStep(atLeast) {
  const power = 10 ** Math.floor(Math.log10(atLeast))
  return ([1, 2, 5, 10].find(times => times * power >= atLeast) ?? 10) * power
}

/** @param {Timeline} figure @param {number} number @param {Map<number, number[]>} members @returns {string} */
function tell(figure, number, members) {
  const call = figure.calls[number]
  const others = (members.get(number) ?? []).filter(other => other !== number).map(other => figure.calls[other].rank)
  const facts = [`rank ${call.rank}: ${call.name}`]
  if (call.state) facts.push(call.state)
  const isAway = call.parts.some(part => part[2] === "open" || part[2] === "travel")
  facts.push(isAway ? `in the background for ${duration(call.end - call.begin)}, in wait() for ${duration(call.waited)}`
    : `waited ${duration(call.waited)}, moved data for ${duration(call.moved)}`)
  if (call.load) facts.push(call.load)
  if (call.kind !== "message" && others.length) facts.push(`with rank${others.length > 1 ? "s" : ""} ${others.join(", ")}`)
  return [...facts, call.place].join(" · ")
}

/** @param {Timeline} figure @param {"steps" | "time"} axis */
function hint(figure, axis) {
  if (!figure.calls.length) return "No call of torch.distributed was recorded."
  const isAway = figure.calls.some(call => call.name.includes("←") && call.parts.some(part => part[3] > 0))
  const steps = `Each column is one step, not a time.${isAway ? " A receive in the background is where the rank waits for it." : ""}`
  const what = axis === "steps" ? steps : "Time goes to the right, from the first call on."
  return `${what} Point at a call, tap it, or use the arrow keys, to read about it.`
}

/** @param {Timeline} figure */
function howToRead(figure) {
  return `${figure.alt} The arrow keys go from call to call.`
}

/** @param {Timeline} figure @param {"steps" | "time"} axis @returns {HTMLElement[]} */
function keyOf(figure, axis) {
  const looks = new Set(figure.calls.flatMap(call => call.parts.map(part => part[2])))
  const kinds = new Set(figure.calls.map(call => call.kind))
  const isTime = axis === "time"
  const signs = [
    ["ddp-k-computing", "computing: the higher, the larger its share of a core", isTime && figure.computing.length],
    ["ddp-k-off", "not computing: asleep, or waiting for a core", isTime],
    ["ddp-k-wait", "waiting for another rank", isTime && (looks.has("wait") || looks.has("open"))],
    ["ddp-k-move", "data moving", isTime && (looks.has("move") || looks.has("travel"))],
    ["ddp-k-call", "starting a call", isTime && looks.has("call")],
    ["ddp-k-row", "lower row: in the background", isTime && looks.has("call")],
    ["ddp-k-never", "waits forever", looks.has("never")],
    ["ddp-k-band", "band: one collective, on all its ranks", isTime && figure.collectives.some(one => one.calls.length > 1)],
    ["ddp-k-collective", "collective", kinds.has("collective")],
    ["ddp-k-ddp", "called by DDP", kinds.has("ddp")],
  ]
  const phases = isTime ? [...new Set(figure.phases.map(phase => phase.label))].slice(0, MOST_PHASES) : []
  return [...signs.filter(sign => sign[2]).map(([look, words]) => keyTo(tag("i", { class: String(look) }), String(words))),
    ...phases.map((label, turn) => keyTo(tag("i", { style: `background:${PHASE_COLORS[turn % PHASE_COLORS.length]}` }), label))]
}

/** @param {HTMLElement} sign @param {string} words */
function keyTo(sign, words) {
  sign.setAttribute("aria-hidden", "true")
  return tag("span", {}, sign, words)
}
