// What a cell answers comes with the next key: so the room can predict it first.
for (const output of document.querySelectorAll(".jp-Cell-outputWrapper")) output.classList.add("fragment")
// What scrolls has to be reachable without a mouse, once it can be seen.
const reach = () => {
  const slide = Reveal.getCurrentSlide()
  for (const box of [slide, ...slide.querySelectorAll("pre, .jp-OutputArea-output")])
    if (box.scrollHeight > box.clientHeight + 1 || box.scrollWidth > box.clientWidth + 1) box.tabIndex = 0
}
Reveal.on("ready", reach)
Reveal.on("slidechanged", reach)
Reveal.on("fragmentshown", event => event.fragment.scrollIntoView({block: "nearest"}))
Reveal.initialize({hash: true, slideNumber: "c/t", width: 1100, height: 720, margin: 0.03, center: false, transition: "none"})
