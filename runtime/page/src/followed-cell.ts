// A cell while it runs: what it has shown so far, and its question if it asks one.

import { channels } from "./channels";

export interface CellQuestion {
  prompt: string;
  password: boolean;
  seq: number;
}

const OVERHEAD = 200;
const MOST_OUTPUTS = 200;
const LONGEST_TEXT = 200_000;

/** The outputs of one cell as a notebook has them, as they come. */
export class FollowedCell {
  outputs: Record<string, unknown>[] = [];
  question: CellQuestion | null = null;
  private channel = 0;
  private after = 0;
  private clears = false;

  constructor(
    readonly session: string,
    readonly id: string,
    readonly kernel: string,
    private readonly changed: () => void,
  ) {
    this.channel = channels.open({
      opening: () => ({ call: "join_cell", session, args: { cell_id: id, kernel, after: this.after } }),
      event: (event, size) => {
        if (typeof event["seq"] === "number") this.after = Math.max(this.after, event["seq"]);
        this.heard(event);
        channels.grant(this.channel, size + OVERHEAD);
      },
      ended: () => this.changed(),
    });
  }

  leave(): void {
    channels.close(this.channel);
  }

  private heard(event: Record<string, unknown>): void {
    const kind = event["event"];
    if (kind === "input_request") {
      this.question = {
        prompt: String(event["prompt"] ?? ""), password: event["password"] === true, seq: Number(event["seq"]) || 0,
      };
      this.changed();
      return;
    }
    this.question = null;
    if (kind === "clear_output") {
      // `wait`: only once something else is shown, so that an animation does not flicker.
      if (event["wait"] === true) this.clears = true;
      else this.outputs = [];
    } else if (kind === "update_display_data") {
      const id = displayOf(event);
      this.outputs = this.outputs.map((each) => (id && displayOf(each) === id ? { ...each, data: event["data"] } : each));
    } else {
      if (this.clears) this.outputs = [];
      this.clears = false;
      this.add(event);
    }
    this.changed();
  }

  private add(event: Record<string, unknown>): void {
    const last = this.outputs.at(-1);
    if (event["event"] === "stream" && last?.["event"] === "stream" && last["name"] === event["name"]) {
      const text = overwritten(String(last["text"]) + String(event["text"])).slice(-LONGEST_TEXT);
      this.outputs = [...this.outputs.slice(0, -1), { ...last, text }];
    } else {
      this.outputs = [...this.outputs, event].slice(-MOST_OUTPUTS);
    }
  }
}

/** A text without what its carriage returns write over: a progress bar is one line. Pure. */
export function overwritten(text: string): string {
  return text.includes("\r") ? text.replace(/\r\n/g, "\n").replace(/^.*\r(?=.)/gm, "") : text;
}

function displayOf(event: Record<string, unknown>): string {
  const transient = event["transient"];
  const id = typeof transient === "object" && transient !== null ? (transient as Record<string, unknown>)["display_id"] : "";
  return typeof id === "string" ? id : "";
}
