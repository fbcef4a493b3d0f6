// What the page's own pieces do in the browser: draw, paste, hold to compare, the map, the samples. No request leaves it
// but through Gradio's own events.
const studio = {
  // A picture from the clipboard or the drawing goes where a chosen file would go.
  give(blob, name) {
    const input = document.querySelector("#upload input[type=file]");
    if (!input) return setTimeout(() => studio.give(blob, name), 100); // the last one is still being read
    const files = new DataTransfer();
    files.items.add(new File([blob], name, { type: blob.type }));
    input.files = files.files;
    input.dispatchEvent(new Event("change", { bubbles: true }));
  },

  draw(element) {
    let last = null, wait = 0;
    const canvas = () => element.querySelector("canvas");
    const fill = () => {
      const pen = canvas().getContext("2d");
      pen.fillStyle = canvas().dataset.paper;
      pen.fillRect(0, 0, canvas().width, canvas().height);
    };
    const at = (event) => {
      const box = canvas().getBoundingClientRect();
      return [((event.clientX - box.left) / box.width) * canvas().width, ((event.clientY - box.top) / box.height) * canvas().height];
    };
    const line = (from, to) => {
      const pen = canvas().getContext("2d");
      Object.assign(pen, { strokeStyle: canvas().dataset.ink, lineWidth: +canvas().dataset.pen, lineCap: "round" });
      pen.beginPath(); pen.moveTo(...from); pen.lineTo(...to); pen.stroke();
    };
    const blank = () => { if (!canvas().dataset.ready) { fill(); canvas().dataset.ready = "yes"; } };
    element.addEventListener("pointerdown", (event) => {
      if (event.target !== canvas()) return;
      event.preventDefault(); blank(); clearTimeout(wait);
      element.setPointerCapture(event.pointerId);
      last = at(event); line(last, last);
    });
    element.addEventListener("pointermove", (event) => { if (last) { line(last, at(event)); last = at(event); } });
    element.addEventListener("pointerup", () => {
      if (!last) return;
      last = null;
      wait = setTimeout(() => canvas().toBlob((blob) => studio.give(blob, "drawing.png"), "image/png"), 250);
    });
    element.addEventListener("click", (event) => { if (event.target.closest("button")) fill(); });
  },

  paste() {
    document.addEventListener("paste", (event) => {
      const file = [...(event.clipboardData?.files ?? [])][0];
      if (file) { event.preventDefault(); studio.give(file, file.name || "pasted.png"); }
    });
  },

  // While the button is held, or its key, the stage shows the picture that was given.
  hold() {
    const show = (held) => document.querySelector("#stage")?.classList.toggle("held", held);
    const on = (event) => event.target.closest?.("#hold") && (!event.key || " Enter".includes(event.key)) && show(true);
    for (const name of ["pointerdown", "keydown"]) document.addEventListener(name, on);
    for (const name of ["pointerup", "pointercancel", "keyup", "blur"]) document.addEventListener(name, () => show(false));
  },

  map(element, trigger) {
    // One place at a time is sent, the last one pointed at next, when the answer has moved the marker: Gradio's own
    // way to wait ("always_last") forgets what an event carried.
    let held = false, busy = 0, next = null;
    const send = (x, y) => {
      if (busy) { next = [x, y]; return; }
      busy = setTimeout(answered, 1000);
      trigger("select", { x, y });
    };
    const answered = () => {
      clearTimeout(busy); busy = 0;
      if (next) { const place = next; next = null; send(...place); }
    };
    new MutationObserver(answered).observe(document.querySelector("#marker"), { childList: true, subtree: true });
    const at = (event) => {
      const box = element.querySelector("svg").getBoundingClientRect();
      return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
    };
    element.addEventListener("pointerdown", (event) => {
      if (!event.target.closest("svg")) return;
      held = true; element.setPointerCapture(event.pointerId); send(...at(event));
    });
    element.addEventListener("pointermove", (event) => { if (held) send(...at(event)); });
    element.addEventListener("pointerup", (event) => { if (held) { held = false; send(...at(event)); } });
    element.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
      if (!step) return;
      event.preventDefault();
      const here = document.querySelector("#marker svg").dataset;
      send(+here.x + 0.03 * step[0], +here.y + 0.03 * step[1]);
    });
  },

  samples(element, trigger) {
    element.addEventListener("click", (event) => {
      const button = event.target.closest("button.sample");
      if (button) trigger("select", { place: +button.dataset.place });
    });
  },
};
window.studio = studio;
studio.paste();
studio.hold();
