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
