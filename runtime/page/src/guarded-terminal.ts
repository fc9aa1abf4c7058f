// A terminal that shows what a session prints and does nothing else with it.
//
// xterm.js answers questions of programs through the same event as typing. With several viewers each would
// answer, and one who only watches would type; so questions are swallowed, and so is what would reach beyond
// the screen: the clipboard, the window, colours. Titles and links are texts until a person clicks.

import { FitAddon } from "@xterm/addon-fit";
import { SearchAddon } from "@xterm/addon-search";
import { Terminal } from "@xterm/xterm";

import { ask } from "./question";
import { line } from "./texts";

const SCROLLBACK = 5_000;
const OSC_SWALLOWED = [4, 5, 7, 9, 10, 11, 12, 13, 14, 17, 19, 50, 52, 99, 104, 105, 110, 111, 112, 777, 1337];
const OSC_TITLES = [0, 1, 2];
const LONGEST_TITLE = 200;
/** Sequences that do something so many times: xterm.js counts to two thousand million, and the tab hangs. */
const COUNTED = [
  ...[..."@ABCDEFGILMPSTXZabde"].map((final) => ({ final })),
  { intermediates: " ", final: "@" },
  { intermediates: " ", final: "A" },
  { intermediates: "'", final: "}" },
  { intermediates: "'", final: "~" },
];
const HIGHEST_COUNT = 10_000;

export interface GuardedTerminal {
  terminal: Terminal;
  fit: FitAddon;
  search: SearchAddon;
}

/** Make a terminal; `titled` is told what it calls itself. */
export function guardedTerminal(titled: (title: string) => void): GuardedTerminal {
  const terminal = new Terminal({
    scrollback: SCROLLBACK,
    fontFamily: "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace",
    fontSize: 14,
    disableStdin: true,
    screenReaderMode: false,
    allowProposedApi: false,
    windowOptions: {},
    theme: { background: "#11151a", foreground: "#d7dce2", cursor: "#7cc4ff" },
    linkHandler: { activate: (_, target) => void follow(target) },
  });
  const { parser } = terminal;
  const swallow = () => true;
  for (const number of OSC_SWALLOWED) parser.registerOscHandler(number, swallow);
  for (const number of OSC_TITLES) {
    parser.registerOscHandler(number, (title) => {
      titled(line(title, LONGEST_TITLE));
      return true;
    });
  }
  // Device attributes, status and position, modes, the window, the version.
  for (const id of [
    { final: "c" },
    { prefix: ">", final: "c" },
    { prefix: "=", final: "c" },
    { final: "n" },
    { prefix: "?", final: "n" },
    { intermediates: "$", final: "p" },
    { prefix: "?", intermediates: "$", final: "p" },
    { final: "t" },
    { prefix: ">", final: "q" },
    { prefix: "?", final: "u" },
  ]) {
    parser.registerCsiHandler(id, swallow);
  }
  for (const id of COUNTED) {
    parser.registerCsiHandler(id, (params) => params.some((each) => typeof each === "number" && each > HIGHEST_COUNT));
  }
  for (const intermediates of ["$", "+"]) parser.registerDcsHandler({ intermediates, final: "q" }, swallow);
  const fit = new FitAddon();
  const search = new SearchAddon();
  terminal.loadAddon(fit);
  terminal.loadAddon(search);
  return { terminal, fit, search };
}

/** Whether a terminal says this by itself and no key does: a report of the focus, an attribute, a string. */
export function isAnswer(data: string): boolean {
  return /^\x1b(?:\[[IO]$|\[[?>=]|[\]P_^X].)/s.test(data);
}

/** A text as it may be pasted: nothing in it ends the paste or controls the terminal. */
export function pasteable(text: string): string {
  return text.replace(/\r\n/g, "\n").replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, "");
}

async function follow(target: string): Promise<void> {
  let url: URL;
  try {
    url = new URL(target);
  } catch {
    return;
  }
  if (url.protocol !== "http:" && url.protocol !== "https:") return;
  if ((await ask(`A program in this session links to ${line(url.href, 500)}`, "Open it")) === null) return;
  window.open(url.href, "_blank", "noopener,noreferrer");
}
