// What differs between two points: files, packages, processes, shells and kernels; as text, whatever they are named.

import { html, nothing, type TemplateResult } from "lit";

import { bytes, line } from "./texts";

const MOST = 200;
const SIGNS: Readonly<Record<string, string>> = { new: "+", changed: "~", deleted: "−" };
const PARTS: readonly (readonly [string, string])[] = [
  ["files", "Files"], ["packages", "Packages"], ["processes", "Processes"], ["shell", "Shells"], ["kernel", "Kernels"],
];

type Row = Record<string, unknown>;

/** Show a comparison as the server has it: of two snapshots, or of a session with one. */
export function changeList(found: Record<string, unknown>): TemplateResult {
  const parts = PARTS.map(([name, title]) => [title, name, rows(found[name])] as const).filter(([, , rows]) => rows.length);
  const notes = Array.isArray(found["notes"]) ? found["notes"] : [];
  const noise = Number(found["noise"]) || 0;
  return html`<div class="changes" role="region" aria-label="Changes">
    ${parts.length ? nothing : html`<p class="empty">Nothing differs.</p>`}
    ${parts.map(([title, name, rows]) => html`<h3>${title}</h3>
      <ul>${rows.slice(0, MOST).map((each) => html`<li class=${kind(each)}><span class="sign" title=${kind(each)}>${SIGNS[kind(each)]}</span> ${said(name, each)} ${authors(each, found)}</li>`)}</ul>
      ${rows.length > MOST ? html`<p class="said">and ${rows.length - MOST} more</p>` : nothing}`)}
    ${noise ? html`<p class="said">${noise} files are left out: caches, histories, what package managers keep</p>` : nothing}
    ${notes.map((each) => html`<p class="said">${line(each, 300)}</p>`)}
  </div>`;
}

function rows(value: unknown): Row[] {
  return Array.isArray(value) ? value.filter((each): each is Row => typeof each === "object" && each !== null) : [];
}

/** What happened to it; a package says so by its versions. */
function kind(row: Row): string {
  const told = row["change"];
  if (typeof told === "string") return told in SIGNS ? told : "changed";
  return !row["old"] && !row["replaced"] ? "new" : row["new"] ? "changed" : "deleted";
}

function said(part: string, row: Row): TemplateResult {
  if (part === "files") {
    const size = typeof row["bytes"] === "number" && row["change"] !== "deleted" && !row["folder"] ? bytes(row["bytes"]) : "";
    return html`<code>${line(row["path"], 400)}${row["folder"] ? "/" : ""}</code> <small>${size}</small>`;
  }
  const names = ["shell", "kernel", "manager", "kind", "name", "command"];
  const told = names.map((name) => line(row[name], 160)).filter(Boolean).join(" ");
  const values = [line(row["old"], 120), line(row["new"], 120)].filter(Boolean).join(" → ") || line(row["ended"], 120);
  return html`<code>${told}</code> <small>${values}</small>`;
}

/** Who changed it, if that is known: the journal entries. */
function authors(row: Row, found: Record<string, unknown>): TemplateResult | typeof nothing {
  const known = found["authors"];
  if (!Array.isArray(row["by"]) || typeof known !== "object" || known === null) return nothing;
  const told = row["by"].slice(0, 3).map((seq) => {
    const author = (known as Record<string, Row | undefined>)[String(seq)];
    return author ? `${line(author["actor"], 60)}: ${line(author["text"], 80)}` : `#${line(seq, 20)}`;
  });
  return told.length ? html`<small class="by">${told.join("; ")}</small>` : nothing;
}
