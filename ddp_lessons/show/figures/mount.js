// A figure in any page: `mount(element, document)`; in a notebook anywidget calls `render`.

import { mountDrawing } from "./drawing.js"
import { mountExchange, mountSheet } from "./exchange.js"
import { tag } from "./marks.js"
import { mountQuestions } from "./questions.js"
import { mountTimeline } from "./timeline.js"

/** Words, where there is nothing to draw. @param {HTMLElement} element @param {{alt: string}} note @returns {() => void} */
function mountNote(element, note) {
  element.replaceChildren(tag("div", { class: "ddp-figure" }, note.alt))
  return () => element.replaceChildren()
}

/** What Python drew. @param {HTMLElement} element @param {{html: string}} chart @returns {() => void} */
function mountChart(element, chart) {
  element.innerHTML = chart.html
  return () => element.replaceChildren()
}

const KINDS = {
  note: mountNote, drawing: mountDrawing, timeline: mountTimeline, exchange: mountExchange, sheet: mountSheet, chart: mountChart,
  questions: mountQuestions,
}

/** @param {HTMLElement} element @param {any} figure a document, as ddp_lessons writes it @returns {() => void} what ends it */
export function mount(element, figure) {
  const draw = KINDS[/** @type {keyof KINDS} */ (figure.kind)]
  if (!draw) throw new Error(`there is no figure of kind ${figure.kind}`)
  return draw(element, figure)
}

/** @param {{model: any, el: HTMLElement}} where */
function render({ model, el }) {
  let end = mount(el, model.get("document"))
  model.on("change:document", () => {
    end()
    end = mount(el, model.get("document"))
  })
  return () => end()
}

export default { render, mount }
