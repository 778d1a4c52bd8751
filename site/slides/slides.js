// What a cell answers comes with the next key: so the room can predict it first. On a phone a slide stays a slide.
Reveal.initialize({
  hash: true, slideNumber: "c/t", width: 1280, height: 720, margin: 0, center: false, display: "flex", transition: "none",
  controls: false, scrollActivationWidth: null, plugins: [RevealNotes],
})

// A figure comes to life as large as it fits, and Enter plays it; one that has the focus takes all keys.
// What does not fit stays a still.
const SIZES = [2, 1.8, 1.6, 1.4, 1.2, 1]
function bringToLife() {
  for (const place of Reveal.getCurrentSlide().querySelectorAll(".ddp-living:has(> script)")) {
    const figure = JSON.parse(place.querySelector("script").textContent), still = place.querySelector("img")
    const box = Object.assign(document.createElement("div"), { className: figure.plays ? "plays" : "" })
    place.replaceChildren(box)
    let end = () => {}
    const fits = SIZES.some(size => {
      box.style.zoom = size
      end()
      end = ddpFigures.mount(box, { ...figure, plays: false })
      const [inside, outside] = [box, place].map(part => part.getBoundingClientRect())
      const scrolls = [box, ...box.querySelectorAll("div")].some(part => part.scrollWidth > part.clientWidth + 1)
      return inside.height <= outside.height && !scrolls
    })
    if (fits) continue
    end()
    place.replaceChildren(still)
  }
}
Reveal.on("ready", bringToLife)
Reveal.on("slidechanged", bringToLife)
const play = place => place.querySelector(".ddp-player button")?.click()
Reveal.on("fragmentshown", ({ fragment }) => fragment.querySelector(".plays") && play(fragment))
Reveal.configure({
  keyboardCondition: () => !document.activeElement?.closest(".ddp-figure"),
  keyboard: { 13: () => play(Reveal.getCurrentSlide()) },
})
