// What a cell answers comes with the next key: so the room can predict it first. On a phone a slide stays a slide.
Reveal.initialize({
  hash: true, slideNumber: "c/t", width: 1280, height: 720, margin: 0, center: false, display: "flex", transition: "none",
  controls: false, scrollActivationWidth: null, plugins: [RevealNotes],
})
