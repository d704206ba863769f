/** A look by name asks for at most so many generations; a wider span is looked up by label. */
const NAMES_MAX = 8;
/** About 200 bytes each. An agent that was forgotten is looked up by label once more. */
const AGENTS_MAX = 50_000;

/** `null`: only a list by label tells. */
type Span = { from: number; to: number } | null;

/**
 * Remembers which generations of an agent's container may stand. Looking up a container by name costs the engine the same however many
 * containers it has, a list by label costs it a look at each. Generations only grow, and a new one is made after the older ones were
 * removed, so what was seen once holds on every replica. The exception is a process that was superseded in the middle of a call: what
 * it makes late is found by the regular list, which widens the span.
 */
export class Generations {
  private readonly spans = new Map<string, Span>();

  /** The generations that may stand where the agent wants this one; null where only a list by label tells. */
  toLookAt(agentId: string, wanted: number): number[] | null {
    const known = this.spans.get(agentId);
    if (known === null) return null;
    const from = Math.min(known?.from ?? 1, wanted);
    const to = Math.max(known?.to ?? wanted, wanted);
    return to - from < NAMES_MAX ? Array.from({ length: to - from + 1 }, (_, index) => from + index) : null;
  }

  /** All of the agent's containers were looked for, and these are there. */
  saw(agentId: string, wanted: number, found: readonly number[]): void {
    this.remember(agentId, { from: Math.min(wanted, ...found), to: Math.max(wanted, ...found) });
  }

  /** A container of this generation is there, or is being made. */
  mayStand(agentId: string, generation: number): void {
    const known = this.spans.get(agentId);
    if (known === null || (known !== undefined && known.from <= generation && generation <= known.to)) return;
    // Where nothing is known the span stays open downwards: older ones may be there as well.
    const { from, to } = known ?? { from: 1, to: generation };
    this.remember(agentId, { from: Math.min(from, generation), to: Math.max(to, generation) });
  }

  /** There may be a container of the agent that no name leads to: the next look is by label. */
  distrust(agentId: string): void {
    this.remember(agentId, null);
  }

  private remember(agentId: string, span: Span): void {
    this.spans.delete(agentId);
    this.spans.set(agentId, span);
    if (this.spans.size <= AGENTS_MAX) return;
    const [oldest] = this.spans.keys();
    if (oldest !== undefined) this.spans.delete(oldest);
  }
}
