// The questions of a lesson: a list of choices for each, what is said to a choice, and a score. No kernel is asked.

import { button, tag } from "./marks.js"

/**
 * @typedef {{letter: string, text: string, is_right: boolean, said: string}} Choice its code is between backticks
 * @typedef {{text: string, program: string, choices: Choice[]}} Question
 * @typedef {{title: string, alt: string, questions: Question[]}} Quiz
 */

const LETTER = /^[a-d]$/
const MARKS = { right: "✓ right", tried: "✗ tried" }
let quizzes = 0 // a page may have several, and their questions have names of their own

/** @param {HTMLElement} element @param {Quiz} quiz @returns {() => void} what ends it */
export function mountQuestions(element, quiz) {
  const sheet = new Sheet(quiz, `ddp-quiz-${quizzes++}`)
  element.replaceChildren(sheet.root)
  const resized = new ResizeObserver(() => sheet.reach())
  resized.observe(sheet.root)
  /** The notebook has keys of its own, also for letters, and hears of them at the document. @param {KeyboardEvent} event */
  const press = event => sheet.root.contains(/** @type {Node} */ (event.target)) && sheet.press(event)
  addEventListener("keydown", press, true)
  return () => {
    resized.disconnect()
    removeEventListener("keydown", press, true)
    sheet.root.remove()
  }
}

/** All questions, one of them shown at a time or all. */
class Sheet {
  /** @param {Quiz} quiz @param {string} id */
  constructor(quiz, id) {
    this.place = 0
    this.asked = quiz.questions.map((question, place) => new Asked(question, place + 1, `${id}-${place}`, () => this.count()))
    this.back = button("Back", "the question before", () => this.turn(this.place - 1))
    this.next = button("Next", "the next question", () => this.turn(this.place + 1))
    this.where = tag("span", { class: "ddp-where" })
    this.turning = tag("div", { class: "ddp-bar" }, this.back, this.next, this.where)
    this.one = button("One at a time", "one question at a time", () => this.show(false))
    this.all = button("All", "all questions", () => this.show(true))
    this.score = tag("p", { class: "ddp-score", role: "status" })
    const views = tag("div", { class: "ddp-switch", role: "group", "aria-label": "questions shown" }, this.one, this.all)
    this.root = tag("div", { class: "ddp-figure ddp-quiz", role: "group", "aria-label": quiz.title },
      tag("div", { class: "ddp-title", role: "heading", "aria-level": 3 }, quiz.title), tag("p", {}, quiz.alt),
      ...this.asked.map(asked => asked.root), tag("div", { class: "ddp-bar" }, this.turning, views), this.score)
    this.count()
    this.show(false)
  }

  /** @param {boolean} isAll */
  show(isAll) {
    this.isAll = isAll
    this.one.setAttribute("aria-pressed", String(!isAll))
    this.all.setAttribute("aria-pressed", String(isAll))
    this.turning.hidden = isAll
    this.asked.forEach((asked, place) => (asked.root.hidden = !isAll && place !== this.place))
    this.where.textContent = `Question ${this.place + 1} of ${this.asked.length}`
    this.back.disabled = this.place === 0
    this.next.disabled = this.place === this.asked.length - 1
    this.reach()
  }

  /** To another question, which is read aloud. @param {number} place */
  turn(place) {
    this.place = place
    this.asked[place].root.hidden = false
    this.asked[place].text.focus()
    this.show(false)
  }

  count() {
    const right = this.asked.filter(asked => asked.isSolved)
    const atOnce = right.filter(asked => asked.tries === 1)
    this.score.textContent = `Answered right: ${right.length} of ${this.asked.length}, ${atOnce.length} of them at the first try.`
    this.score.classList.toggle("ddp-done", right.length === this.asked.length)
  }

  /** @param {KeyboardEvent} event */
  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return
    const target = /** @type {Node} */ (event.target)
    const asked = this.isAll ? this.asked.find(one => one.root.contains(target)) : this.asked[this.place]
    if (LETTER.test(event.key)) asked?.choose(event.key)
    else if (event.key === "ArrowDown") asked?.step(1)
    else if (event.key === "ArrowUp") asked?.step(-1)
    else if (event.key === "Enter" || event.key === " ") return event.stopPropagation() // the button under it is pressed
    else return
    event.preventDefault()
    event.stopPropagation()
  }

  /** A program that is too wide scrolls, so the keyboard has to come to it. */
  reach() {
    for (const code of this.root.querySelectorAll("pre")) code.tabIndex = code.scrollWidth > code.clientWidth ? 0 : -1
  }
}

/** One question, and how far its reader is. */
class Asked {
  /** @param {Question} question @param {number} number @param {string} id @param {() => void} told */
  constructor(question, number, id, told) {
    this.question = question
    this.told = told
    this.tries = 0 // until it was right
    this.isSolved = false
    this.text = tag("p", { id, class: "ddp-asked", tabindex: -1 }, tag("strong", {}, `${number}. `), ...coded(question.text))
    this.buttons = question.choices.map(choice => this.buttonOf(choice))
    this.said = tag("p", { class: "ddp-verdict", role: "status" })
    this.root = tag("div", { class: "ddp-question", role: "group", "aria-labelledby": id }, this.text,
      ...(question.program ? [tag("pre", {}, tag("code", {}, question.program))] : []),
      tag("ol", { role: "list" }, ...this.buttons.map(one => tag("li", {}, one))), this.said)
  }

  /** @param {Choice} choice @returns {HTMLElement} */
  buttonOf({ letter, text }) {
    const words = tag("span", {}, ...coded(text))
    const made = tag("button", { type: "button", class: "ddp-choice" }, tag("span", {}, `${letter}) `), words, tag("span", { class: "ddp-mark" }))
    made.addEventListener("click", () => this.choose(letter))
    return made
  }

  /** @param {string} letter */
  choose(letter) {
    const place = this.question.choices.findIndex(choice => choice.letter === letter)
    if (place < 0) return
    const { is_right, said } = this.question.choices[place]
    const mark = is_right ? "right" : "tried"
    if (!this.isSolved) this.tries += 1
    this.isSolved ||= is_right
    this.buttons[place].classList.add(`ddp-${mark}`)
    this.buttons[place].lastElementChild?.replaceChildren(MARKS[mark])
    this.said.replaceChildren(...coded(said))
    this.told()
  }

  /** To a choice further down, or up. @param {number} by */
  step(by) {
    const from = this.buttons.findIndex(one => one === document.activeElement)
    const to = from < 0 && by < 0 ? this.buttons.length - 1 : from + by
    this.buttons[Math.min(Math.max(to, 0), this.buttons.length - 1)].focus()
  }
}

/** What is between backticks as code. @param {string} text @returns {(Node | string)[]} */
function coded(text) {
  return text.split("`").map((part, place) => (place % 2 ? tag("code", {}, part) : part))
}
