// Opened as a file, a page may not read another one: the search then lists what it finds without its surroundings.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false

// What scrolls in its own box has to be reachable without a mouse.
const BOXES = ".highlight pre, .table-wrapper, .cell_output .output, .cell_output pre, article p, dt.sig"
const reach = () => {
  for (const box of document.querySelectorAll(BOXES)) if (box.scrollWidth > box.clientWidth) box.tabIndex = 0
}
addEventListener("load", reach)
addEventListener("resize", reach)

addEventListener("DOMContentLoaded", () => {
  // The theme calls the captions of the list of pages headings, and Sphinx lays out a long signature as a list of definitions.
  for (const caption of document.querySelectorAll(".caption[role=heading]")) caption.ariaLevel = "2"
  for (const list of document.querySelectorAll("dt.sig dl, dt.sig dd")) list.role = "presentation"
})

// The figures of the lessons come to life; without a script they stay the stills that they are.
addEventListener("DOMContentLoaded", () => {
  for (const place of document.querySelectorAll(".ddp-living")) {
    const data = place.querySelector("script")
    if (data) ddpFigures.mount(place, JSON.parse(data.textContent))
  }
})
