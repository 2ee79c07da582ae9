// A worker that keeps a page responsive. Post {model: bytes} once, then {id, method, text, options}:
//
//   const worker = new Worker(new URL("spacy-bcrf/worker.js", import.meta.url), { type: "module" });
//   worker.postMessage({ model });
//   worker.postMessage({ id: 1, method: "redact", text, options: { threshold: 0.2 } });
//   worker.onmessage = ({ data: { id, result, error } }) => ..
import { load } from "./src/index.js";

let pipeline = null;
self.onmessage = async ({ data: { model, id, method, text, options } }) => {
  if (model) {
    pipeline = load(model);
    pipeline.catch(() => {}); // each request reports it
    return;
  }
  try {
    if (!["annotate", "candidates", "redact"].includes(method)) throw new TypeError(`unknown method ${method}`);
    self.postMessage({ id, result: (await pipeline)[method](text, options) });
  } catch (error) {
    self.postMessage({ id, error: `${error.name}: ${error.message}` });
  }
};
