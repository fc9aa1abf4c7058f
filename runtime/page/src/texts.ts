// Values as a person reads them. Pure.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

export function bytes(count: number): string {
  let value = count;
  let unit = 0;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit && value < 10 ? value.toFixed(1) : Math.round(value)} ${UNITS[unit]}`;
}

export function seconds(value: number): string {
  if (value < 10) return `${value.toFixed(1)} s`;
  if (value < 120) return `${Math.round(value)} s`;
  if (value < 7200) return `${Math.round(value / 60)} min`;
  if (value < 172_800) return `${Math.round(value / 3600)} h`;
  return `${Math.round(value / 86_400)} d`;
}

/** How long ago, from a time as text or in Unix seconds. */
export function age(when: string | number): string {
  const then = typeof when === "number" ? when * 1000 : Date.parse(when);
  const passed = Math.max(0, (Date.now() - then) / 1000);
  return passed < 10 ? "just now" : `${seconds(passed)} ago`;
}

export function clock(at: number): string {
  return new Date(at * 1000).toLocaleTimeString();
}

/** A text from a session for one line: without control characters, and not too long. */
export function line(text: unknown, longest = 200): string {
  const found = typeof text === "string" ? text : text === undefined || text === null ? "" : String(text);
  // Marks that change the direction of text could make a line read as another one.
  const clean = found.replace(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]+/g, " ").trim();
  return clean.length > longest ? `${clean.slice(0, longest - 1)}…` : clean;
}

const ASKS: Readonly<Record<string, string>> = {
  line: "a line",
  password: "a password",
  key: "a key",
  pager: "a key in a pager",
  repl: "input at its prompt",
};

/** What a waiting program asks for. */
export function asks(detail: string | null): string {
  return (detail !== null && ASKS[detail]) || "input";
}

/** A span of time as a player shows it: 1:05, 2:03:04. */
export function span(value: number): string {
  const whole = Math.max(0, Math.floor(value));
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const end = `${String(minutes).padStart(hours ? 2 : 1, "0")}:${String(rest).padStart(2, "0")}`;
  return hours ? `${hours}:${end}` : end;
}

export function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? "" : "s"}`;
}
