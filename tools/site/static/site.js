// A page opened from disk may not read other pages, so the search takes its excerpts from texts.js.
if (location.protocol === "file:") {
  const root = document.documentElement.dataset.content_root
  const page = address => String(address).split("#")[0].replace(root, "").replace(/\.html$/, "")
  globalThis.fetch = async address => new Response(globalThis.ddpTexts?.[page(address)] ?? "")
  addEventListener("DOMContentLoaded", () => {
    if (typeof Search !== "undefined") Search.htmlToText = text => text // what texts.js has is text already
  })
}

// Boxes that scroll must be reachable without a mouse.
const BOXES = ".highlight pre, .table-wrapper, .cell_output .output, .cell_output pre, article p, dt.sig"
const reach = () => {
  for (const box of document.querySelectorAll(BOXES)) if (box.scrollWidth > box.clientWidth) box.tabIndex = 0
}
addEventListener("load", reach)
addEventListener("resize", reach)

addEventListener("DOMContentLoaded", () => {
  // The theme marks captions in the list of pages as headings, and Sphinx marks up a long signature as a definition list.
  for (const caption of document.querySelectorAll(".caption[role=heading]")) caption.ariaLevel = "2"
  for (const list of document.querySelectorAll("dt.sig dl, dt.sig dd")) list.role = "presentation"
})
