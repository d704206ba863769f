/** The most generations that are looked up by name; a wider span is looked up by label. */
const NAMES_MAX = 8;
/** The number of remembered agents, at about 200 bytes each. An evicted agent is looked up by label once more. */
const AGENTS_MAX = 50_000;

/** `null` means that only a list by label is complete. */
type Span = { from: number; to: number } | null;

/**
 * Remembers which generations of an agent's containers may exist. The cost of a lookup by name does not depend on the number of containers,
 * while for a list by label the engine examines each of them. Generations only grow, and a container of an older one never returns, so what
 * was found once is valid on every replica. The exception is a stale process in the middle of a call: the engine's event about the
 * container that it creates late widens the span, and so does the regular list.
 */
export class Generations {
  private readonly spans = new Map<string, Span>();

  /** Returns the generations that may exist if the agent wants this one; null if only a list by label is complete. */
  possible(agentId: string, wanted: number): number[] | null {
    const known = this.spans.get(agentId);
    if (known === null) return null;
    const from = Math.min(known?.from ?? 1, wanted);
    const to = Math.max(known?.to ?? wanted, wanted);
    return to - from < NAMES_MAX ? Array.from({ length: to - from + 1 }, (_, index) => from + index) : null;
  }

  /** Notes the outcome of a complete lookup of the agent's containers. */
  setFound(agentId: string, wanted: number, found: readonly number[]): void {
    this.remember(agentId, { from: Math.min(wanted, ...found), to: Math.max(wanted, ...found) });
  }

  /** Notes that a container of this generation exists, or is being created. */
  add(agentId: string, generation: number): void {
    const known = this.spans.get(agentId);
    if (known === null || (known !== undefined && known.from <= generation && generation <= known.to)) return;
    // If nothing is known, the span begins at 1, since older containers may exist as well.
    const { from, to } = known ?? { from: 1, to: generation };
    this.remember(agentId, { from: Math.min(from, generation), to: Math.max(to, generation) });
  }

  /** Notes that the agent may have a container with another name: the next lookup is by label. */
  evict(agentId: string): void {
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
