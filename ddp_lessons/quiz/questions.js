// Replaces a page of questions by a sheet that asks them: choices to press, a reply to each, and a score.
// Every output contains this script. The first one that runs finds the data of all outputs in the document.
(() => {
  /** All questions of a lesson. It shows one of them at a time, or all. */
  class Sheet {
    constructor({ title, alt, questions }) {
      this.place = 0
      this.asked = questions.map((question, place) => new Asked(question, place + 1, () => this.count()))
      this.back = button({ "aria-label": "previous question" }, () => this.turn(-1), "Back")
      this.next = button({ "aria-label": "next question" }, () => this.turn(1), "Next")
      this.where = tag("span", { class: "ddp-where" })
      this.turning = tag("div", { class: "ddp-controls" }, this.back, this.next, this.where)
      this.one = button({ "aria-label": "one question at a time" }, () => this.show(false), "One at a time")
      this.all = button({ "aria-label": "all questions" }, () => this.show(true), "All")
      this.score = tag("p", { class: "ddp-score", role: "status" })
      const views = tag("div", { role: "group", "aria-label": "questions shown" }, this.one, this.all)
      const about = { class: "ddp-quiz", role: "group", "aria-label": title }
      this.root = tag("div", about, tag("div", { class: "ddp-title", role: "heading", "aria-level": 3 }, title),
        tag("p", {}, alt), ...this.asked.map(asked => asked.root),
        tag("div", { class: "ddp-controls" }, this.turning, views), this.score)
      // at the window, before the notebook: it has keys of its own, also for letters
      addEventListener("keydown", event => this.root.contains(event.target) && this.press(event), true)
      this.count()
      this.show(false)
    }

    show(isAll) {
      this.isAll = isAll
      this.one.setAttribute("aria-pressed", !isAll)
      this.all.setAttribute("aria-pressed", isAll)
      this.turning.hidden = isAll
      this.asked.forEach((asked, place) => (asked.root.hidden = !isAll && place !== this.place))
      this.where.textContent = `Question ${this.place + 1} of ${this.asked.length}`
      this.back.disabled = this.place === 0
      this.next.disabled = this.place === this.asked.length - 1
    }

    /** Go to another question, which a screen reader then reads aloud. */
    turn(by) {
      this.place += by
      this.show(false)
      this.asked[this.place].text.focus()
    }

    count() {
      const right = this.asked.filter(asked => asked.isSolved).length
      const first = this.asked.filter(asked => asked.isSolved && asked.tries === 1).length
      this.score.textContent = `Correct: ${right} of ${this.asked.length}, ${first} of them on the first try.`
      this.score.classList.toggle("ddp-done", right === this.asked.length)
    }

    press(event) {
      if (event.ctrlKey || event.metaKey || event.altKey) return
      event.stopPropagation()
      const asked = this.isAll ? this.asked.find(one => one.root.contains(event.target)) : this.asked[this.place]
      if (/^[a-d]$/.test(event.key)) asked?.buttons["abcd".indexOf(event.key)]?.click()
      else if (event.key === "ArrowDown") asked?.step(1)
      else if (event.key === "ArrowUp") asked?.step(-1)
      else return
      event.preventDefault()
    }
  }

  /** One question and its answers so far. */
  class Asked {
    constructor({ text, program, choices }, number, answered) {
      this.answered = answered
      this.tries = 0 // until it was right
      this.isSolved = false
      this.text = tag("p", { tabindex: -1 }, tag("strong", {}, `${number}. `), ...coded(text))
      this.buttons = choices.map(choice => this.buttonOf(choice))
      this.said = tag("p", { class: "ddp-verdict", role: "status" })
      this.root = tag("div", { class: "ddp-question", role: "group", "aria-label": `question ${number}` }, this.text,
        ...(program ? [tag("pre", {}, tag("code", {}, program))] : []),
        tag("ol", { role: "list" }, ...this.buttons.map(one => tag("li", {}, one))), this.said)
    }

    buttonOf(choice) {
      const parts = [tag("span", {}, `${choice.letter}) `), tag("span", {}, ...coded(choice.text))]
      const press = event => this.choose(choice, event.currentTarget)
      return button({ class: "ddp-choice" }, press, ...parts, tag("span", { class: "ddp-mark" }))
    }

    choose({ is_right, said }, pressed) {
      if (!this.isSolved) this.tries += 1
      this.isSolved ||= is_right
      pressed.classList.toggle("ddp-right", is_right)
      pressed.lastElementChild.textContent = is_right ? "✓ right" : "✗ tried"
      this.said.replaceChildren(...coded(said))
      this.answered()
    }

    /** Move the focus by so many choices down, or up. */
    step(by) {
      const from = this.buttons.indexOf(document.activeElement)
      const to = from < 0 && by < 0 ? this.buttons.length - 1 : from + by
      this.buttons[Math.min(Math.max(to, 0), this.buttons.length - 1)].focus()
    }
  }

  function tag(name, attributes, ...children) {
    const element = document.createElement(name)
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value)
    element.append(...children)
    return element
  }

  function button(attributes, act, ...children) {
    const made = tag("button", { type: "button", ...attributes }, ...children)
    made.addEventListener("click", act)
    return made
  }

  /** Text between backticks as code. */
  function coded(text) {
    return text.split("`").map((part, place) => (place % 2 ? tag("code", {}, part) : part))
  }

  for (const data of document.querySelectorAll("script.ddp-questions")) {
    data.previousElementSibling.replaceWith(new Sheet(JSON.parse(data.textContent)).root)
    data.remove()
  }
})()
