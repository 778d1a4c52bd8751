// A picture that was laid out for several widths: the widest one that its column has room for is shown, never a smaller copy.
// With captions it is a film: its shapes come and go in steps.

import { arrowHead, boxPath, f, freshName, mark, rankColor, tag } from "./marks.js"
import { Player, ease } from "./player.js"

/**
 * @typedef {{box: [number, number, number, number], fill?: string, edge?: string, opacity?: number, corner?: number, is_dashed?: boolean,
 *   is_hatched?: boolean, about?: string}} Box its left, its top, its width and its height
 * @typedef {{bars: [number, number, number, number, number[]], fill?: string, edge?: string, gap?: number, is_hatched?: boolean}} Bars
 *   the left of the first, their foot, the width of each, the greatest height, and each one's part of it
 * @typedef {{line: [[number, number][]], color?: string, width?: number, has_head?: boolean, is_dashed?: boolean}} Stroke its points
 * @typedef {{words: [number, number, string], color?: string, anchor?: string, is_bold?: boolean}} Words where, and what
 * @typedef {{since?: number, until?: number, from?: [number, number]}} Cue the step in which it comes, the one in which it goes, and
 *   how far from its place it sets out
 * @typedef {{width: number, height: number, shapes: ((Box | Bars | Stroke | Words) & Cue)[]}} Layout
 */

const DASHES = "5 3"

/** @param {HTMLElement} element @param {{title: string, alt: string, layouts: Layout[], captions?: string[]}} figure
 * @returns {() => void} what ends it */
export function mountDrawing(element, figure) {
  const room = tag("div", { class: "ddp-room" })
  /** @type {Layout | undefined} */
  let shown
  /** @type {[SVGElement, Cue][]} */
  let cues = []
  const player = figure.captions && playerOf(figure.captions, position => cues.forEach(([one, cue]) => showAt(one, cue, position)))
  const root = tag("div", { class: "ddp-figure" }, tag("div", { class: "ddp-bar" }, tag("strong", {}, figure.title)), room,
    ...(player ? [player.caption, player.bar] : []))
  const place = () => {
    const wanted = figure.layouts.filter(layout => layout.width <= room.clientWidth).at(-1) ?? figure.layouts[0]
    if (wanted === shown) return
    cues = []
    room.replaceChildren(drawn(wanted, figure.alt, cues))
    player?.film.draw(player.position)
    shown = wanted
  }
  element.replaceChildren(root)
  const resized = new ResizeObserver(place)
  resized.observe(root)
  if (player) root.addEventListener("keydown", event => player.press(event))
  place()
  return () => {
    player?.end()
    resized.disconnect()
    root.remove()
  }
}

/** @param {string[]} captions @param {(position: number) => void} draw */
function playerOf(captions, draw) {
  return new Player({ steps: captions.length - 1, draw, tell: step => captions[step] })
}

/** Half-way through a step, what comes in it is on its way, and what goes is half gone.
 * @param {SVGElement} element @param {Cue} cue @param {number} position */
function showAt(element, { since = 0, until = Infinity, from }, position) {
  const [come, gone] = [since, until].map(step => Math.min(Math.max(position - step + 1, 0), 1))
  element.setAttribute("opacity", String((from ? Number(come > 0) : come) * (1 - gone)))
  element.setAttribute("visibility", come > 0 && gone < 1 ? "visible" : "hidden")
  if (from) element.setAttribute("transform", `translate(${from.map(far => f(far * (1 - ease(come)))).join(" ")})`)
}

/** @param {Layout} layout @param {string} alt @param {[SVGElement, Cue][]} cues is filled @returns {SVGElement} */
function drawn({ width, height, shapes }, alt, cues) {
  const id = freshName()
  const hatched = new Set(shapes.flatMap(shape => "is_hatched" in shape ? [shape.edge ?? ""] : []))
  const patterns = [...hatched].map(color =>
    mark("pattern", { id: hatch(id, color), width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
      mark("line", { y2: 6, stroke: paint(color), "stroke-width": 1.6 })))
  const marks = shapes.flatMap(shape => {
    if (!shape.since && !shape.until) return marksOf(shape, id)
    const group = mark("g", {}, ...marksOf(shape, id))
    cues.push([group, shape])
    return [group]
  })
  return mark("svg", { width, height, viewBox: `0 0 ${f(width)} ${f(height)}`, role: "img", "aria-label": alt, fill: "none", stroke: "none" },
    mark("defs", {}, ...patterns), ...marks)
}

/** @param {string} id @param {string} color @returns {string} the name of its pattern */
function hatch(id, color) {
  return `${id}-${color.replace(" ", "-")}`
}

/** @param {string | undefined} color by its name, as "ink" or "rank 2" @returns {string | undefined} */
function paint(color) {
  if (!color || color === "none" || color.startsWith("#")) return color
  return color.startsWith("rank ") ? rankColor(Number(color.slice(5))) : `var(--ddp-${color})`
}

/** @param {Box | Bars | Stroke | Words} shape @param {string} id @returns {SVGElement[]} */
function marksOf(shape, id) {
  if ("words" in shape) return [text(shape)]
  if ("line" in shape) return line(shape)
  const path = "bars" in shape ? mark("path", { d: bars(shape) }) : box(shape)
  const stripes = shape.is_hatched ? [/** @type {SVGElement} */ (path.cloneNode())] : []
  for (const one of stripes) one.setAttribute("fill", `url(#${hatch(id, shape.edge ?? "")})`)
  path.setAttribute("fill", paint(shape.fill) ?? "none")
  path.setAttribute("stroke", paint(shape.edge) ?? "none")
  return [path, ...stripes]
}

/** @param {Words} shape @returns {SVGElement} */
function text({ words: [x, y, words], color, anchor, is_bold }) {
  return mark("text", { x, y: y + 4.2, fill: paint(color ?? "ink"), "text-anchor": anchor, "font-weight": is_bold ? 600 : undefined }, words)
}

/** @param {Box} shape @returns {SVGElement} */
function box({ box: [x, y, width, height], corner, opacity, is_dashed, about }) {
  return mark("rect", { x, y, width, height, rx: corner ?? 2, "fill-opacity": opacity, "stroke-dasharray": is_dashed ? DASHES : undefined },
    ...(about ? [mark("title", {}, about)] : []))
}

/** @param {Stroke} shape @returns {SVGElement[]} */
function line({ line: [points], color, width, has_head, is_dashed }) {
  const stroke = paint(color ?? "line")
  const shaft = mark("polyline", { points: points.join(" "), stroke, "stroke-width": width ?? 1, "stroke-dasharray": is_dashed ? DASHES : undefined })
  const [[x0, y0], [x1, y1]] = points.slice(-2)
  return has_head ? [shaft, mark("path", { d: arrowHead(x0, y0, x1, y1, 8), fill: stroke })] : [shaft]
}

/** Without gaps, one outline of all. @param {Bars} shape @returns {string} */
function bars({ bars: [x, y, width, height, parts], gap = 0 }) {
  if (gap) return parts.map((part, place) => part ? boxPath(x + place * width, y, width - gap, -part * height) : "").join("")
  return `M${f(x)} ${f(y)}${parts.map((part, place) => `V${f(y - part * height)}H${f(x + (place + 1) * width)}`).join("")}V${f(y)}Z`
}
