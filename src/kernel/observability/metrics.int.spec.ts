import performance from 'node:perf_hooks';

import { Metrics } from './metrics.ts';

describe('/metrics', () => {
  it('reads each gauge once for all requests within the same second', async () => {
    const metrics = new Metrics();
    let asked = 0;
    metrics.gauge('boats', 'Boats in the harbour.', () => (asked += 1));
    const texts = await Promise.all([metrics.text(), metrics.text(), metrics.text()]);
    expect(new Set(texts).size).toBe(1);
    expect(asked).toBe(1);
    await metrics.text();
    expect(asked).toBe(1);
  });

  it('omits the value of a gauge whose source does not respond, and returns the others', async () => {
    const metrics = new Metrics();
    metrics.gauge('depth', 'Depth of the water.', () => Promise.reject(new Error('the sounder is away')));
    metrics.gauge('boats', 'Boats by pier.', () => new Map([['east', 3]]), 'pier');
    const text = await metrics.text();
    expect(text).toContain('boats{pier="east"} 3');
    expect(text).not.toMatch(/^depth/m);
  });

  it('measures the process once for all services in it, each of which exports it', async () => {
    const first = new Metrics();
    const monitors = jest.spyOn(performance, 'monitorEventLoopDelay');
    const second = new Metrics();
    expect(monitors).not.toHaveBeenCalled();
    first.gauge('boats', 'Boats in the harbour.', () => 3);
    expect(await first.text()).toContain('boats 3');
    expect(await second.text()).not.toContain('boats');
    for (const metrics of [first, second]) expect(await metrics.text()).toMatch(/^process_cpu_seconds_total \d/m);
  });
});
