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
    const ready = () => canvas().getContext("2d", { alpha: false }); // paper is not transparent
    const fill = () => {
      const pen = ready();
      pen.fillStyle = canvas().dataset.paper;
      pen.fillRect(0, 0, canvas().width, canvas().height);
    };
    const at = (event) => {
      const box = canvas().getBoundingClientRect();
      return [((event.clientX - box.left) / box.width) * canvas().width, ((event.clientY - box.top) / box.height) * canvas().height];
    };
    const line = (from, to) => {
      const pen = ready();
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

  // The address names the run that is open, so that a page loaded again, or a bookmark, opens it.
  named: (name) => new URLSearchParams(location.search).get("run") ?? name,
  name(name) {
    const here = new URL(location);
    here.searchParams.set("run", name);
    history.replaceState(history.state, "", here);
  },

  paste() {
    document.addEventListener("paste", (event) => {
      const file = [...(event.clipboardData?.files ?? [])][0];
      if (file) { event.preventDefault(); studio.give(file, file.name || "pasted.png"); }
    });
  },

  // A file dropped anywhere is opened; where nobody takes it, the browser leaves the page to show it.
  drop() {
    document.addEventListener("dragover", (event) => { if (event.dataTransfer?.types.includes("Files")) event.preventDefault(); });
    document.addEventListener("drop", (event) => {
      const file = event.dataTransfer?.files[0];
      if (!file || event.defaultPrevented) return; // the upload's own field has taken it
      event.preventDefault(); studio.give(file, file.name);
    });
  },

  // What is typed beside a slider reaches it only within its limits: beyond them it is cut when typing ends, and an
  // empty box goes back to what it was.
  numbers() {
    const slider = (box) => box.matches?.("input[type=number]") ? box.closest(".block")?.querySelector("input[type=range]") : null;
    const cut = (box) => Math.min(Math.max(+box.value, +slider(box).min), +slider(box).max);
    const fits = (box) => box.value !== "" && cut(box) === +box.value;
    document.addEventListener("focusin", ({ target }) => { if (slider(target)) target.dataset.was = target.value; });
    document.addEventListener("input", (event) => {
      if (slider(event.target) && !fits(event.target)) event.stopImmediatePropagation();
      else if (slider(event.target)) event.target.dataset.was = event.target.value;
    }, true);
    document.addEventListener("change", ({ target }) => {
      if (!slider(target) || fits(target)) return;
      target.value = target.value === "" ? target.dataset.was : cut(target);
      target.dispatchEvent(new Event("input", { bubbles: true }));
    }, true);
  },

  // While the button is held, or its key, the stage shows the picture that was given.
  hold() {
    const show = (held) => document.querySelector("#stage")?.classList.toggle("held", held);
    const on = (event) => event.target.closest?.("#hold") && (!event.key || " Enter".includes(event.key)) && show(true);
    for (const name of ["pointerdown", "keydown"]) document.addEventListener(name, on);
    for (const name of ["pointerup", "pointercancel", "keyup", "blur"]) document.addEventListener(name, () => show(false));
  },

  // Left by the keyboard, a list of choices stays open over what is below it; Gradio closes it when it is told again.
  lists() {
    document.addEventListener("focusout", ({ target }) => {
      if (!target.matches("[role=combobox]")) return;
      setTimeout(() => {
        const open = target.getAttribute("aria-expanded") === "true" && document.activeElement !== target;
        if (open) target.dispatchEvent(new FocusEvent("blur"));
      }, 100);
    });
  },

  map(element, trigger) {
    // One place at a time is sent, the last one pointed at next, when the answer has moved the marker: Gradio's own
    // way to wait ("always_last") forgets what an event carried.
    let from = null, dragged = false, busy = 0, next = null;
    const send = (event, x, y) => {
      if (busy) { next = [event, x, y]; return; }
      busy = setTimeout(answered, 1000);
      trigger(event, { x, y });
    };
    const answered = () => {
      clearTimeout(busy); busy = 0;
      if (next) { const last = next; next = null; send(...last); }
    };
    new MutationObserver(answered).observe(document.querySelector("#marker"), { childList: true, subtree: true });
    const at = (event) => {
      const box = element.querySelector("svg").getBoundingClientRect();
      return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
    };
    element.addEventListener("pointerdown", (event) => {
      if (!event.target.closest("svg")) return;
      from = event; dragged = false; element.setPointerCapture(event.pointerId);
    });
    element.addEventListener("pointermove", (event) => {
      if (!from) return;
      dragged ||= Math.hypot(event.clientX - from.clientX, event.clientY - from.clientY) > 4; // hands are not still
      if (dragged) send("select", ...at(event));
    });
    element.addEventListener("pointerup", () => { if (from && !dragged) send("click", ...at(from)); from = null; });
    element.addEventListener("pointercancel", () => { from = null; });
    element.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
      if (!step) return;
      event.preventDefault();
      const here = document.querySelector("#marker svg").dataset;
      send("select", +here.x + 0.03 * step[0], +here.y + 0.03 * step[1]);
    });
  },

  samples(element, trigger) {
    element.addEventListener("click", (event) => {
      const button = event.target.closest("button.sample");
      if (!button) return;
      const { label, seed, spread } = button.closest(".samples").dataset;
      trigger("select", { place: +button.dataset.place, label, seed: +seed, spread: +spread });
    });
  },
};
window.studio = studio;
studio.paste();
studio.drop();
studio.numbers();
studio.hold();
studio.lists();
