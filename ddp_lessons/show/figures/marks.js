// What every figure is drawn with: SVG marks, colors of ranks, widths of words.

const SVG = "http://www.w3.org/2000/svg"
const RANK_COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8A8A8A", "#9C6B30"]
/** JupyterLab handles arrow keys itself, except in elements with this attribute. */
export const OWN_KEYS = { "data-lm-suppress-shortcuts": "true" }
const INK = "#111820"
const PAPER = "#FFFFFF"

/** A name that no other element of the page has; each figure of a notebook is drawn by a module of its own. */
export function freshName() {
  return `ddp-${Math.random().toString(36).slice(2, 10)}`
}

/** @param {number} rank @returns {string} */
export function rankColor(rank) {
  return RANK_COLORS[rank % RANK_COLORS.length]
}

/**
 * An SVG element. Attributes that are undefined are left out.
 * @param {string} name @param {Record<string, string | number | undefined>} [attributes] @param {(Node | string)[]} children
 * @returns {SVGElement}
 */
export function mark(name, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, name)
  for (const [key, value] of Object.entries(attributes)) if (value !== undefined) element.setAttribute(key, String(value))
  element.append(...children)
  return element
}

/**
 * An HTML element.
 * @param {string} name @param {Record<string, string | number | undefined>} [attributes] @param {(Node | string)[]} children
 * @returns {HTMLElement}
 */
export function tag(name, attributes = {}, ...children) {
  const element = document.createElement(name)
  for (const [key, value] of Object.entries(attributes)) if (value !== undefined) element.setAttribute(key, String(value))
  element.append(...children)
  return element
}

/** @param {string} label @param {string} title @param {() => void} act @returns {HTMLButtonElement} */
export function button(label, title, act) {
  const element = /** @type {HTMLButtonElement} */ (tag("button", { type: "button", title, "aria-label": title }, label))
  element.addEventListener("click", act)
  return element
}

/** The color in which words on this one read better. @param {string} color @returns {string} */
export function inkOn(color) {
  return contrast(color, INK) >= contrast(color, PAPER) ? INK : PAPER
}

/** @param {string} one @param {string} other @returns {number} */
function contrast(one, other) {
  const [darker, lighter] = [luminance(one), luminance(other)].sort((a, b) => a - b)
  return (lighter + 0.05) / (darker + 0.05)
}

/** @param {string} color "#RRGGBB" @returns {number} */
function luminance(color) {
  const [red, green, blue] = [1, 3, 5].map(at => {
    const part = parseInt(color.slice(at, at + 2), 16) / 255
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4
  })
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue
}

const widths = new Map()
/** @type {CanvasRenderingContext2D | null} */
let ruler = null

/** In pixels, in the font of the page. @param {string} text @param {number} size @param {string} family @returns {number} */
export function widthOf(text, size, family) {
  const key = `${size} ${family} ${text}`
  let width = widths.get(key)
  if (width === undefined) {
    ruler = ruler || document.createElement("canvas").getContext("2d")
    if (!ruler) return text.length * size * 0.6
    ruler.font = `${size}px ${family}`
    width = ruler.measureText(text).width
    widths.set(key, width)
  }
  return width
}

/** Short, with its unit. @param {number} milliseconds @returns {string} */
export function duration(milliseconds) {
  if (milliseconds >= 1000) return `${round(milliseconds / 1000)} s`
  if (milliseconds >= 1) return `${round(milliseconds)} ms`
  return `${round(milliseconds * 1000)} µs`
}

/** Three digits. @param {number} number @returns {string} */
export function round(number) {
  return String(Number(number.toPrecision(3)))
}

/** A path of a triangle with its tip at (x1, y1), as the end of a line from (x0, y0). */
export function arrowHead(/** @type {number} */ x0, /** @type {number} */ y0, /** @type {number} */ x1, /** @type {number} */ y1, size = 7) {
  const length = Math.hypot(x1 - x0, y1 - y0) || 1
  const [along, across] = [((x1 - x0) / length) * size, ((y1 - y0) / length) * size]
  const [x, y] = [x1 - along, y1 - across]
  return `M${f(x1)} ${f(y1)}L${f(x - across / 2)} ${f(y + along / 2)}L${f(x + across / 2)} ${f(y - along / 2)}Z`
}

/** A number as short as a path needs it. @param {number} number @returns {string} */
export function f(number) {
  return String(Math.round(number * 10) / 10)
}

/** @param {number} x @param {number} y @param {number} width @param {number} height @returns {string} */
export function boxPath(x, y, width, height) {
  return `M${f(x)} ${f(y)}h${f(width)}v${f(height)}h${f(-width)}Z`
}
