// Opened as a file, a page may not read another one: the search takes its excerpts from texts.js then.
if (location.protocol === "file:") {
  const root = document.documentElement.dataset.content_root
  const page = address => String(address).split("#")[0].replace(root, "").replace(/\.html$/, "")
  globalThis.fetch = async address => new Response(globalThis.ddpTexts?.[page(address)] ?? "")
  addEventListener("DOMContentLoaded", () => {
    if (typeof Search !== "undefined") Search.htmlToText = text => text // what texts.js has is text already
  })
}

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
