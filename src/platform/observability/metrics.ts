import { Injectable } from '@nestjs/common';
import { collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';

/** An answer of `/metrics` is given again for this long, ms: some gauges ask the database, and anybody near may ask often. */
const KEPT_MS = 1_000;

/** One value, or one for each value of the label. */
export type GaugeValue = number | ReadonlyMap<string, number>;

/** Keeps the metrics that `/metrics` answers. Labels are from closed sets: never an id, never a caller's text. */
@Injectable()
export class Metrics {
  private readonly registry = new Registry();
  private kept: { text: Promise<string>; until: number } | null = null;

  constructor() {
    collectDefaultMetrics({ register: this.registry });
  }

  get contentType(): string {
    return this.registry.contentType;
  }

  /** All of it as Prometheus reads it, at most a second old. */
  text(): Promise<string> {
    const now = performance.now();
    if (this.kept === null || now >= this.kept.until) {
      const text = this.registry.metrics();
      this.kept = { text, until: now + KEPT_MS };
      text.catch(() => (this.kept = null));
    }
    return this.kept.text;
  }

  /** Adds a gauge that is read whenever somebody looks. One whose `read` fails has no value in that answer; the others do. */
  gauge(name: string, help: string, read: () => Promise<GaugeValue> | GaugeValue, label = 'name'): void {
    const gauge: Gauge = new Gauge({
      name,
      help,
      labelNames: [label],
      registers: [this.registry],
      collect: async () => {
        gauge.reset();
        try {
          const value = await read();
          if (typeof value === 'number') gauge.set(value);
          else for (const [key, each] of value) gauge.set({ [label]: key }, each);
        } catch {
          // The part that it asks is away: the gauge has no value until that is back.
        }
      },
    });
  }

  /** Adds a histogram of durations in seconds. */
  histogram<Label extends string>(name: string, help: string, labelNames: readonly Label[], buckets: readonly number[]): Histogram<Label> {
    return new Histogram({ name, help, labelNames: [...labelNames], buckets: [...buckets], registers: [this.registry] });
  }
}
