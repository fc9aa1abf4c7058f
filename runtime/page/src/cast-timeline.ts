// A recording in asciicast v2 as a line of events in time, pauses shortened. Pure.

export interface CastEvent {
  /** Seconds from the beginning, as it was, and as it is played. */
  at: number;
  played: number;
  code: string;
  data: string;
}

export interface Cast {
  rows: number;
  cols: number;
  /** Unix seconds. */
  begun: number;
  events: readonly CastEvent[];
  seconds: number;
}

export const LONGEST_PAUSE = 2;
const MOST_SIDE = 1000;

/** Read a cast; a line that is not understood is left out, as it comes from a session. */
export function readCast(text: string): Cast {
  const lines = text.split("\n");
  const header = parsed(lines.shift() ?? "");
  const told = typeof header === "object" && header !== null ? (header as Record<string, unknown>) : {};
  const events: CastEvent[] = [];
  let at = 0;
  let played = 0;
  for (const each of lines) {
    const row = each && parsed(each);
    if (!Array.isArray(row) || typeof row[0] !== "number" || typeof row[1] !== "string" || typeof row[2] !== "string") continue;
    const time = Math.max(at, row[0]);
    played += Math.min(time - at, LONGEST_PAUSE);
    at = time;
    events.push({ at, played, code: row[1], data: row[2] });
  }
  return { rows: side(told["height"], 24), cols: side(told["width"], 80), begun: Number(told["timestamp"]) || 0, events, seconds: played };
}

/** The number of events up to a moment of the play. */
export function countUntil(events: readonly CastEvent[], played: number): number {
  let low = 0;
  let high = events.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (events[middle]!.played <= played) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** A new size as `r` events have it, COLSxROWS; null if it is not one. */
export function sizeOf(data: string): { rows: number; cols: number } | null {
  const found = /^(\d{1,4})x(\d{1,4})$/.exec(data);
  return found ? { cols: side(Number(found[1]), 80), rows: side(Number(found[2]), 24) } : null;
}

function side(value: unknown, otherwise: number): number {
  return typeof value === "number" && value >= 1 ? Math.min(Math.floor(value), MOST_SIDE) : otherwise;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
