// Who is at a shell, as a person reads it. Pure.

import type { Lease } from "./api";
import { line } from "./texts";

const MOST_NAMED = 4;

/** The actors at a shell, those who only watch marked so; empty if nobody is. */
export function present(lease: Lease | null): string {
  const counts = new Map<string, number>();
  for (const { actor, writes } of lease?.attached ?? []) {
    const told = `${line(actor, 60)}${writes ? "" : " (watches)"}`;
    counts.set(told, (counts.get(told) ?? 0) + 1);
  }
  const names = [...counts].map(([name, count]) => (count > 1 ? `${name} ×${count}` : name));
  const more = names.length - MOST_NAMED;
  return names.slice(0, MOST_NAMED).join(", ") + (more > 0 ? ` and ${more} more` : "");
}
