// A page of 1280 x 720 never scrolls: what doesn't fit on it is set smaller, or continues on the next one.
const PARTS = ":scope > :is(ul, ol) > li, :scope > table > tbody > tr, .line"
const title = slide => slide.querySelector("h1, h2")
const blocks = slide => [...slide.querySelectorAll(":scope > :not(h1, h2, aside)")]
const isFull = slide => slide.scrollHeight > slide.clientHeight
function setSize(slide) {
  slide.classList.remove("is-full")
  slide.classList.toggle("is-full", isFull(slide)) // with smaller code
}
function spill(slide) {
  setSize(slide)
  if (!isFull(slide)) return
  const next = document.createElement("section"), heading = title(slide).cloneNode(true)
  next.append(heading)
  slide.after(next)
  while (isFull(slide) && blocks(slide).length > 1) heading.after(blocks(slide).at(-1))
  setSize(slide)
  if (isFull(slide)) split(slide, heading)
  blocks(next).length ? spill(next) : next.remove()
}
function split(slide, heading) {
  const [block] = blocks(slide), rest = block.cloneNode(true)
  const parts = [...block.querySelectorAll(PARTS)], others = [...rest.querySelectorAll(PARTS)]
  while (isFull(slide) && parts.length > 1) parts.pop().remove()
  for (const part of others.slice(0, parts.length)) part.remove()
  for (const list of rest.querySelectorAll(":scope > ol")) list.start += parts.length
  if (parts.length < others.length) heading.after(rest)
}
for (const code of document.querySelectorAll(".slides pre")) {
  code.style.whiteSpace = "pre"
  code.classList.toggle("is-wide", code.scrollWidth > code.clientWidth) // smaller, so that fewer lines break
  code.style.whiteSpace = ""
}
document.querySelectorAll(".slides > section").forEach(spill)
document.body.classList.remove("measuring")

// What a cell answers comes with the next key: so the room can predict it first. On a phone a slide stays a slide.
Reveal.initialize({
  hash: true, slideNumber: "c/t", width: 1280, height: 720, margin: 0, center: false, display: "flex", transition: "none",
  controls: false, scrollActivationWidth: null, plugins: [RevealNotes],
})

// A figure is as large as it fits, and Enter plays it; one that has the focus takes all keys.
const SIZES = [2, 1.8, 1.6, 1.4, 1.2, 1, 0.8, 0.6, 0.4]
function fit() {
  for (const figure of Reveal.getCurrentSlide().querySelectorAll(".ddp-figure")) {
    const place = figure.parentElement, svg = figure.querySelector("svg")
    const size = SIZES.find(size => {
      figure.style.zoom = size
      ddpFigures.get(figure)?.place() // the layout for this width
      const [inside, outside] = [figure, place].map(part => part.getBoundingClientRect())
      return inside.height <= outside.height && svg.getBoundingClientRect().width <= outside.width
    })
    place.classList.toggle("is-small", size < 1) // as a picture, not to be read to the last word
  }
}
Reveal.on("ready", fit)
Reveal.on("slidechanged", fit)
const play = place => [...place.querySelectorAll(".ddp-figure button")].find(one => one.textContent === "Play")?.click()
Reveal.on("fragmentshown", ({ fragment }) => fragment.querySelector(".plays") && play(fragment))
Reveal.configure({
  keyboardCondition: () => !document.activeElement?.closest(".ddp-figure"),
  keyboard: { 13: () => play(Reveal.getCurrentSlide()) },
})
