// The course in JupyterLab: each code cell has an edge that says what one does there, lines are as long as one reads well, and a unit's
// contents stand where the list of files is. Written by hand as what a bundler makes of an extension: a container with one module.
"use strict";

(globalThis._JUPYTERLAB ??= {}).strides = (() => {
  const STYLE = `
    .jp-RenderedMarkdown :is(p, ul, ol, blockquote) { max-width: 46rem; }
    .jp-RenderedMarkdown img { max-width: min(100%, 40rem); border-radius: 6px; }
    .jp-RenderedMarkdown table { margin-left: 0; display: block; overflow-x: auto; }
    .jp-Notebook .jp-CodeCell[data-course] { border-left: 4px solid var(--edge, transparent); }
    .jp-Notebook .jp-CodeCell:is([data-course="exercise"], [data-course="check"]) { --edge: #009E73; }
    .jp-Notebook .jp-CodeCell[data-course="prediction"] { --edge: #E69F00; border-left-style: dotted; }
    .jp-Notebook .jp-CodeCell[data-course="demonstration"] { --edge: #56B4E9; }`;

  function kind(model) {
    const nbgrader = model.getMetadata("nbgrader");
    if (nbgrader) return nbgrader.solution ? "exercise" : "check";
    if (model.getMetadata("jupyter")?.source_hidden) return "set-up";
    return /^\w+ = \.\.\.$/m.test(model.sharedModel.getSource()) ? "prediction" : "demonstration";
  }

  function mark(notebook) {
    for (const cell of notebook.widgets) if (cell.model.type === "code") cell.node.dataset.course = kind(cell.model);
  }

  // The card's picture as a drawing, which follows the theme; other viewers show the bitmap that is attached with it.
  function draw(cell) {
    const drawing = cell.model.attachments?.get("cover.png")?.data["image/svg+xml"];
    if (!drawing) return;
    const swap = () => {
      for (const image of cell.node.querySelectorAll('img[src^="data:image/png"]'))
        image.src = "data:image/svg+xml," + encodeURIComponent(drawing);
    };
    swap();
    new MutationObserver(swap).observe(cell.node, { childList: true, subtree: true, attributeFilter: ["src"] });
  }

  const followed = new WeakSet();

  async function follow(panel) {
    const notebook = panel?.content;
    if (!notebook?.widgets || !panel.context || followed.has(notebook)) return;
    followed.add(notebook);
    await panel.context.ready;
    mark(notebook);
    if (notebook.widgets.length) draw(notebook.widgets[0]);
    notebook.model.cells.changed.connect(() => requestAnimationFrame(() => mark(notebook)));
  }

  // In a narrow window they would leave no room for the notebook. At the first visit; whoever goes back to the list of files finds it there the next time.
  async function contents(app) {
    await app.restored;
    if (innerWidth < 900) return app.shell.collapseLeft?.();
    if (localStorage.getItem("strides.contents") || !app.commands.hasCommand("toc:show-panel")) return;
    localStorage.setItem("strides.contents", "shown");
    app.commands.execute("toc:show-panel");
  }

  const plugin = {
    id: "strides:course",
    autoStart: true,
    activate(app) {
      document.head.append(Object.assign(document.createElement("style"), { textContent: STYLE }));
      app.shell.currentChanged?.connect((_, change) => follow(change.newValue));
      follow(app.shell.currentWidget);
      contents(app);
    },
  };

  return { init() {}, get: async () => () => ({ __esModule: true, default: plugin }) };
})();
