// The outputs of a cell. Text is text; a picture is a picture, which runs no script; HTML is shown in a frame
// that has no origin and runs no script; nothing else is shown.

import { html, nothing, type TemplateResult } from "lit";

import { withoutControls } from "./command-blocks";

const PICTURES = ["image/png", "image/jpeg"];
const LARGEST = 8 << 20;

/** Elements of pictures and frames, by their outputs: another one for the same output would begin anew. */
const made = new WeakMap<object, TemplateResult | typeof nothing>();

/** Show one output as a notebook has it. It comes from the session and may be anything. */
export function richOutput(output: unknown): TemplateResult | typeof nothing {
  if (typeof output !== "object" || output === null) return nothing;
  let known = made.get(output);
  if (known === undefined) made.set(output, (known = shown(output)));
  return known;
}

function shown(output: object): TemplateResult | typeof nothing {
  const found = output as Record<string, unknown>;
  if (typeof found["text"] === "string" || Array.isArray(found["text"])) return text(found["text"]);
  if (Array.isArray(found["traceback"])) return text(found["traceback"].map(String).join("\n"));
  const data = found["data"];
  if (typeof data !== "object" || data === null) return nothing;
  const bundle = data as Record<string, unknown>;
  for (const type of PICTURES) {
    const url = picture(type, bundle[type]);
    if (url) return html`<img class="plot" src=${url} alt="Plot" @load=${(event: Event) => URL.revokeObjectURL((event.target as HTMLImageElement).src)}>`;
  }
  const drawn = joined(bundle["image/svg+xml"]);
  if (drawn && drawn.length < LARGEST) {
    const url = URL.createObjectURL(new Blob([drawn], { type: "image/svg+xml" }));
    return html`<img class="plot" src=${url} alt="Plot">`;
  }
  const page = joined(bundle["text/html"]);
  if (page && page.length < LARGEST) {
    return html`<iframe class="rich" sandbox="" title="Output" referrerpolicy="no-referrer" .srcdoc=${page}></iframe>`;
  }
  return text(bundle["text/plain"]);
}

function joined(value: unknown): string {
  return Array.isArray(value) ? value.map(String).join("") : typeof value === "string" ? value : "";
}

function text(value: unknown): TemplateResult | typeof nothing {
  const found = withoutControls(joined(value));
  return found ? html`<pre>${found}</pre>` : nothing;
}

function picture(type: string, value: unknown): string {
  const encoded = joined(value).replace(/\s+/g, "");
  if (!encoded || encoded.length > LARGEST) return "";
  try {
    const bytes = Uint8Array.from(atob(encoded), (each) => each.charCodeAt(0));
    return URL.createObjectURL(new Blob([bytes], { type }));
  } catch {
    return "";
  }
}
