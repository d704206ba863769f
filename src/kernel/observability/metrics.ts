import { Injectable } from '@nestjs/common';
import { collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';

/** The time for which a response of `/metrics` is reused, in ms, since some gauges query the database, and any local process may ask often. */
const KEPT_MS = 1_000;

let processMetrics: Registry | null = null;

/** Returns prom-client's metrics of this process. Services in one process share them, because what collects them can't be stopped. */
function metricsOfProcess(): Registry {
  if (processMetrics === null) {
    processMetrics = new Registry();
    collectDefaultMetrics({ register: processMetrics });
  }
  return processMetrics;
}

/** One value, or one for each value of the label. */
export type GaugeValue = number | ReadonlyMap<string, number>;

/** Keeps the metrics of `/metrics`. Labels are from closed sets, never an id or a caller's text. */
@Injectable()
export class Metrics {
  private readonly registry = new Registry();
  private readonly all: readonly Registry[] = [metricsOfProcess(), this.registry];
  private kept: { text: Promise<string>; until: number } | null = null;

  get contentType(): string {
    return this.registry.contentType;
  }

  /** Returns all metrics in Prometheus format, at most a second old. */
  text(): Promise<string> {
    const now = performance.now();
    if (this.kept === null || now >= this.kept.until) {
      const text = Registry.merge([...this.all]).metrics();
      this.kept = { text, until: now + KEPT_MS };
      text.catch(() => (this.kept = null));
    }
    return this.kept.text;
  }

  /** Adds a gauge that is read for each response. If its `read` fails, only this gauge has no value in that response. */
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
          // The source of the gauge is unavailable, so the gauge has no value.
        }
      },
    });
  }

  /** Adds a histogram of durations in seconds. */
  histogram<Label extends string>(name: string, help: string, labelNames: readonly Label[], buckets: readonly number[]): Histogram<Label> {
    return new Histogram({ name, help, labelNames: [...labelNames], buckets: [...buckets], registers: [this.registry] });
  }
}
