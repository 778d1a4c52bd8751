// What each rank holds, and the values that travel between ranks, step by step.

import { arrowHead, f, inkOn, mark, rankColor, tag, widthOf } from "./marks.js"
import { Player, ease } from "./player.js"

/**
 * @typedef {[string, number | "part" | "sum"]} Cell its text, and the rank that it comes from, or what it was made of
 * @typedef {{held: Cell[][][], sent?: string[]}} State by rank, its tensors
 * @typedef {{from: number, to: number, text: string, tone: number | "part" | "sum"}} Move
 * @typedef {{caption: string, moves: Move[]}} Step
 * @typedef {{kind: string, title: string, alt: string, layout: "row" | "ring" | "flow", ranks: number, states: State[], steps: Step[],
 *   first: string, empty: string, plays: boolean, source: string}} Exchange `ranks` counts the source, which is drawn before rank 0
 * @typedef {{x: number, y: number}} Point
 */

const CELL_TEXT = 13
const CELL = 24
const HEAD = 24
const BETWEEN = 5 // tensors
const SPACE = 18 // between cards
const FLOW = 60 // between what was and what is
const SUM = "#64748B"

/** @param {HTMLElement} element @param {Exchange} figure @returns {() => void} what ends it */
export function mountExchange(element, figure) {
  const stage = new Stage(figure, getComputedStyle(element).fontFamily || "sans-serif")
  const player = new Player({
    steps: figure.steps.length,
    draw: position => stage.draw(position),
    tell: step => (step ? figure.steps[step - 1].caption : figure.first),
  })
  const root = tag("div", { class: "ddp-figure", role: "figure", "aria-label": figure.alt },
    tag("div", { class: "ddp-bar" }, tag("strong", {}, figure.title)), tag("div", { class: "ddp-room" }, stage.svg), player.caption,
    ...(figure.steps.length ? [player.bar] : []))
  return live(element, root, [stage], player, figure.plays)
}

/** Several small ones, played together. @param {HTMLElement} element
 * @param {{title: string, alt: string, figures: Exchange[], plays: boolean}} sheet @returns {() => void} */
export function mountSheet(element, sheet) {
  const family = getComputedStyle(element).fontFamily || "sans-serif"
  const stages = sheet.figures.map(figure => new Stage(figure, family))
  const player = new Player({
    steps: Math.max(...sheet.figures.map(figure => figure.steps.length)),
    draw: position => stages.forEach(stage => stage.draw(position)),
    tell: step => (step ? "After." : "Before."),
  })
  const panels = sheet.figures.map((figure, number) => tag("div", { class: "ddp-panel", role: "img", "aria-label": figure.alt },
    tag("strong", {}, figure.title), tag("div", { class: "ddp-room" }, stages[number].svg)))
  const root = tag("div", { class: "ddp-figure", role: "figure", "aria-label": sheet.alt },
    tag("div", { class: "ddp-bar" }, tag("strong", {}, sheet.title)), tag("div", { class: "ddp-sheet" }, ...panels),
    player.caption, player.bar)
  return live(element, root, stages, player, sheet.plays)
}

/** @param {HTMLElement} element @param {HTMLElement} root @param {Stage[]} stages @param {Player} player @param {boolean} plays */
function live(element, root, stages, player, plays) {
  element.replaceChildren(root)
  const place = () => {
    for (const stage of stages) stage.place(stage.svg.parentElement?.clientWidth || 600)
    player.film.draw(player.position)
  }
  const resized = new ResizeObserver(place)
  resized.observe(root)
  root.addEventListener("keydown", event => player.press(event))
  const seen = new IntersectionObserver(entries => {
    if (!entries.some(entry => entry.isIntersecting)) return
    seen.disconnect()
    if (plays && player.position === 0) player.play()
  }, { threshold: 0.6 })
  seen.observe(root)
  place()
  return () => {
    player.end()
    resized.disconnect()
    seen.disconnect()
    root.remove()
  }
}

/** The cards of the ranks, and what flies between them. */
class Stage {
  /** @param {Exchange} figure @param {string} family */
  constructor(figure, family) {
    this.figure = figure
    this.family = family
    this.ways = mark("g")
    this.cards = mark("g")
    this.flying = mark("g")
    this.svg = mark("svg", { class: "ddp-stage", "aria-hidden": "true" }, this.ways, this.cards, this.flying)
    const texts = figure.states.flatMap(state => state.held.flat(2).map(cell => cell[0]))
    const sent = figure.states.flatMap(state => (state.sent ?? []).map(text => `sent ${text}`))
    const widest = Math.max(0, ...[...texts, figure.empty].map(text => this.wide(text) + 20), ...sent.map(text => this.wide(text) + 8))
    this.wanted = Math.max(58, widest)
    this.width = this.wanted
    this.least = widest // narrower than this, and words would be cut
    const tallest = Math.max(...figure.states.flatMap(state => state.held.map(heightOf)), CELL)
    this.height = HEAD + 8 + tallest + (sent.length ? 20 : 4)
    this.shown = -1
    /** @type {Point[]} */
    this.corners = []
    /** @type {Point[] | null} */
    this.below = null
    this.headroom = 4
    this.isRow = false
    /** @type {{text: string, y: number}[]} */
    this.margins = []
    this.place(600)
  }

  /** @param {number} place @returns {[string, string]} the name and the color of a rank, or of what gives to the ranks */
  about(place) {
    const { source } = this.figure
    const rank = source ? place - 1 : place
    return rank < 0 ? [source, SUM] : [this.wide("rank 00") < this.width ? `rank ${rank}` : String(rank), rankColor(rank)]
  }

  /** @param {string} text */
  wide(text) {
    return widthOf(text, CELL_TEXT, this.family)
  }

  /** Lays the cards out in the room that there is. @param {number} room */
  place(room) {
    const { ranks, layout, steps } = this.figure
    this.width = this.wanted
    if (layout === "flow") return this.placeFlow(room)
    const ring = layout === "ring" && ranks > 2 ? aroundCircle(ranks, room, this.width, this.height) : null
    if (ring) {
      this.corners = ring
      this.isRow = false
    } else {
      const columns = Math.max(1, Math.min(ranks, Math.floor((room - 4 + SPACE) / (this.width + SPACE))))
      this.isRow = columns >= ranks
      const farthest = Math.max(0, ...steps.flatMap(step => step.moves.map(move => Math.abs(move.to - move.from))))
      this.headroom = this.isRow && steps.length ? 30 + 9 * Math.min(farthest, 6) : 4
      const pitch = Math.min(this.width + SPACE + 40, (room - 4 - this.width) / Math.max(columns - 1, 1))
      const left = Math.max(2, (room - (columns - 1) * pitch - this.width) / 2)
      this.corners = Array.from({ length: ranks }, (_, rank) => ({
        x: left + (rank % columns) * pitch,
        y: this.headroom + Math.floor(rank / columns) * (this.height + 30),
      }))
    }
    const bottom = Math.max(...this.corners.map(corner => corner.y)) + this.height + 4
    this.size(room, bottom)
  }

  /** One step: what there was before above, what there is after it below. @param {number} room */
  placeFlow(room) {
    const { ranks } = this.figure
    const margin = room > 520 ? 52 : 2
    const pitch = Math.max(Math.min((room - margin - 2) / ranks, this.wanted + 70), this.least + 6)
    this.width = Math.min(this.wanted, pitch - 6)
    const wide = Math.max(room, margin + ranks * pitch)
    const left = margin + Math.max(0, (room - margin - ranks * pitch) / 2) + (pitch - this.width) / 2
    const [above, below] = this.figure.states.map(state => HEAD + 8 + Math.max(CELL, ...state.held.map(heightOf)))
    const second = above + FLOW
    this.heights = [above, below]
    this.corners = Array.from({ length: ranks }, (_, rank) => ({ x: left + rank * pitch, y: 2 }))
    this.below = this.corners.map(({ x }) => ({ x, y: second }))
    this.margins = margin > 2 ? [{ text: "before", y: above / 2 + 6 }, { text: "after", y: second + below / 2 + 4 }] : []
    this.size(wide, second + below + 4)
  }

  /** @param {number} width @param {number} height */
  size(width, height) {
    for (const [key, value] of Object.entries({ width, height, viewBox: `0 0 ${f(width)} ${f(height)}` }))
      this.svg.setAttribute(key, String(value))
    this.shown = -1
  }

  /** @param {number} position 1.5: half-way from the first step's end to the second's */
  draw(position) {
    const last = this.figure.steps.length
    if (this.below) return this.drawFlow(position)
    const state = Math.min(Math.floor(position), last)
    const part = position - state
    if (this.shown !== state) {
      this.shown = state
      this.cards.replaceChildren(...this.figure.states[state].held.flatMap((_, rank) => this.card(rank, state)))
    }
    const isMoving = part > 0 && state < last
    const moves = isMoving ? this.figure.steps[state].moves : state > 0 ? this.figure.steps[state - 1].moves : []
    this.ways.replaceChildren(...moves.flatMap(move => this.way(move, isMoving)))
    this.flying.replaceChildren(...(isMoving ? moves.flatMap(move => this.chip(move, ease(part))) : []))
  }

  /** @param {number} position */
  drawFlow(position) {
    const [below, [above, after]] = [this.below ?? [], this.heights ?? [0, 0]]
    const isOver = position >= 1
    const { states, steps } = this.figure
    if (this.shown !== Number(isOver)) {
      this.shown = Number(isOver)
      this.cards.replaceChildren(
        ...this.margins.map(({ text, y }) => mark("text", { x: 2, y, class: "ddp-faint" }, text)),
        ...states[0].held.flatMap((_, rank) => this.card(rank, 0, this.corners[rank], above)),
        ...states[1].held.flatMap((_, rank) => this.card(rank, 1, below[rank], after, !isOver)))
    }
    const moves = position > 0 ? steps[0].moves : []
    const paths = moves.map(move => this.flow(move))
    this.ways.replaceChildren(...paths.map(([begin, end], number) =>
      mark("line", { x1: begin.x, y1: this.corners[0].y + above, x2: end.x, y2: below[0].y - 2, stroke: this.about(moves[number].from)[1], class: "ddp-way" })))
    const part = ease(position)
    this.flying.replaceChildren(...(isOver || !moves.length ? [] : moves.flatMap((move, number) => {
      const [begin, end] = paths[number]
      return this.flier(move, begin.x + part * (end.x - begin.x), begin.y + part * (end.y - begin.y))
    })))
  }

  /** From its cell above, or all of the card, to the cell below that it will be in. @param {Move} move @returns {[Point, Point]} */
  flow(move) {
    const place = (/** @type {number} */ state, /** @type {number} */ rank, /** @type {Point} */ { x, y }) => {
      const { held } = this.figure.states[state]
      return { x: x + this.width / 2, y: y + HEAD + 6 + middleOf(held[rank], move.text) }
    }
    return [place(0, move.from, this.corners[move.from]), place(1, move.to, (this.below ?? [])[move.to])]
  }

  /** @param {number} rank @param {number} state @param {Point} [corner] @param {number} [height] @param {boolean} [isEmpty]
   * @returns {SVGElement[]} */
  card(rank, state, { x, y } = this.corners[rank], height = this.height, isEmpty = false) {
    const { held, sent } = this.figure.states[state]
    const before = state > 0 && !this.below ? new Set(this.figure.states[state - 1].held[rank].flat().map(cell => cell[0])) : null
    const [name, color] = this.about(rank)
    const marks = [
      mark("rect", { x, y, width: this.width, height, rx: 7, class: "ddp-card", stroke: color }),
      mark("path", { d: roundTop(x, y, this.width, HEAD, 7), fill: color }),
      mark("text", { x: x + this.width / 2, y: y + 17, "text-anchor": "middle", fill: inkOn(color), "font-weight": 600 }, name),
    ]
    if (isEmpty) return marks
    let top = y + HEAD + 6
    if (!held[rank].length) marks.push(mark("text", { x: x + this.width / 2, y: top + 16, "text-anchor": "middle",
      class: "ddp-faint" }, state === this.figure.steps.length ? this.figure.empty : "nothing"))
    for (const tensor of held[rank]) {
      for (const cell of tensor) {
        marks.push(...this.cell(cell, x + 5, top, before !== null && !before.has(cell[0])))
        top += CELL
      }
      top += BETWEEN
    }
    if (sent) marks.push(mark("text", { x: x + this.width / 2, y: y + height - 6, "text-anchor": "middle", class: "ddp-faint" },
      `sent ${sent[rank]}`))
    return marks
  }

  /** @param {Cell} cell @param {number} x @param {number} y @param {boolean} isNew @returns {SVGElement[]} */
  cell([text, tone], x, y, isNew) {
    const isOfRank = typeof tone === "number"
    const look = tone === "sum" ? { fill: SUM, stroke: SUM } : isOfRank ? { fill: rankColor(tone), stroke: rankColor(tone) } : {}
    return [
      mark("rect", { x, y: y + 1, width: this.width - 10, height: CELL - 2, rx: 3, ...look,
        class: `ddp-cell${isOfRank ? " ddp-tinted" : tone === "part" ? " ddp-part" : ""}${isNew ? " ddp-new" : ""}` }),
      mark("text", { x: x + this.width / 2 - 5, y: y + CELL / 2 + 4.5, "text-anchor": "middle",
        fill: tone === "sum" ? "#FFFFFF" : undefined }, text),
    ]
  }

  /** From card to card, and where a curve between them bends. @param {Move} move @returns {[Point, Point, Point]} */
  path(move) {
    const [from, to] = [this.corners[move.from], this.corners[move.to]]
    const half = this.width / 2
    if (this.isRow) { // an arc above the cards
      const aside = move.to > move.from ? 6 : -6
      const [begin, end] = [{ x: from.x + half + aside, y: from.y }, { x: to.x + half - aside, y: to.y - 2 }]
      const height = 24 + 16 * Math.min(Math.abs(move.to - move.from), 6)
      return [begin, { x: (begin.x + end.x) / 2, y: Math.max(begin.y - height, 2 - begin.y) }, end]
    }
    const center = (/** @type {Point} */ corner) => ({ x: corner.x + half, y: corner.y + this.height / 2 })
    const [begin, end] = [center(from), center(to)]
    const bend = { x: (begin.x + end.x) / 2 - (end.y - begin.y) * 0.08, y: (begin.y + end.y) / 2 + (end.x - begin.x) * 0.08 }
    return [edgeOf(begin, bend, this.width, this.height), bend, edgeOf(end, bend, this.width + 6, this.height + 6)]
  }

  /** @param {Move} move @param {boolean} isMoving @returns {SVGElement[]} */
  way(move, isMoving) {
    if (move.from === move.to) return []
    const [begin, bend, end] = this.path(move)
    const color = this.about(move.from)[1]
    const line = mark("path", { d: `M${f(begin.x)} ${f(begin.y)}Q${f(bend.x)} ${f(bend.y)} ${f(end.x)} ${f(end.y)}`, stroke: color,
      class: isMoving ? "ddp-way" : "ddp-way ddp-gone" })
    return [line, mark("path", { d: arrowHead(bend.x, bend.y, end.x, end.y), fill: color })]
  }

  /** A value on its way. @param {Move} move @param {number} part @returns {SVGElement[]} */
  chip(move, part) {
    const [begin, bend, end] = this.path(move)
    const at = (/** @type {"x" | "y"} */ axis) => (1 - part) ** 2 * begin[axis] + 2 * part * (1 - part) * bend[axis] + part ** 2 * end[axis]
    return this.flier(move, at("x"), Math.max(at("y"), 12))
  }

  /** @param {Move} move @param {number} middle @param {number} y @returns {SVGElement[]} */
  flier(move, middle, y) {
    const width = this.wide(move.text) + 14
    const isPart = move.tone === "part"
    const color = typeof move.tone === "number" ? rankColor(move.tone) : SUM
    const room = Number(this.svg.getAttribute("width"))
    const x = Math.min(Math.max(middle, width / 2 + 1), room - width / 2 - 1)
    return [
      mark("rect", { x: x - width / 2, y: y - 11, width, height: 22, rx: 5, fill: isPart ? undefined : color,
        class: isPart ? "ddp-part" : "ddp-chip" }),
      mark("text", { x, y: y + 4.5, "text-anchor": "middle", fill: isPart ? undefined : inkOn(color) }, move.text),
    ]
  }
}

/** @param {Cell[][]} held */
function heightOf(held) {
  return held.reduce((sum, tensor) => sum + tensor.length * CELL + BETWEEN, 0)
}

/** How far down the cell with this text is, or one with its beginning; else the middle. @param {Cell[][]} held @param {string} text */
function middleOf(held, text) {
  const tops = held.flatMap((tensor, number) => tensor.map((cell, row) => ({ cell, top: heightOf(held.slice(0, number)) + row * CELL })))
  const found = tops.find(one => one.cell[0] === text) ?? tops.find(one => one.cell[0] === text.split(" ")[0])
  return found ? found.top + CELL / 2 : Math.max(heightOf(held) - BETWEEN, CELL) / 2
}

/** The corners of cards on an ellipse; null where there is no room for one. */
function aroundCircle(/** @type {number} */ ranks, /** @type {number} */ room, /** @type {number} */ width, /** @type {number} */ height) {
  const most = (room - width) / 2 - 4
  for (let down = height / 2 + 10; down < 420; down += 8) {
    const across = Math.min(Math.max(1.3 * down, width + 40), most)
    const corners = Array.from({ length: ranks }, (_, rank) => {
      const angle = (2 * Math.PI * rank) / ranks - Math.PI / 2
      return { x: room / 2 + across * Math.cos(angle) - width / 2, y: down + down * Math.sin(angle) + 4 }
    })
    const isClear = corners.every((one, number) => corners.slice(number + 1).every(other =>
      Math.abs(one.x - other.x) > width + 70 || Math.abs(one.y - other.y) > height + 30))
    if (isClear) return corners
  }
  return null
}

/** Where the way from a card's middle to some point leaves the card. */
function edgeOf(/** @type {Point} */ middle, /** @type {Point} */ to, /** @type {number} */ width, /** @type {number} */ height) {
  const [dx, dy] = [to.x - middle.x, to.y - middle.y]
  const part = Math.min(dx ? width / 2 / Math.abs(dx) : Infinity, dy ? height / 2 / Math.abs(dy) : Infinity, 1)
  return { x: middle.x + dx * part, y: middle.y + dy * part }
}

function roundTop(/** @type {number} */ x, /** @type {number} */ y, /** @type {number} */ width, /** @type {number} */ height, /** @type {number} */ corner) {
  return `M${f(x)} ${f(y + height)}V${f(y + corner)}q0 ${-corner} ${corner} ${-corner}h${f(width - 2 * corner)}q${corner} 0 ${corner} ${corner}V${f(y + height)}Z`
}
