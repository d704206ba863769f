import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

const root = resolve(import.meta.dirname, '../..');
const read = (path: string) => readFileSync(join(root, path), 'utf8');

const sources = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('metrics.ts'));
const told = new Set(
  sources.flatMap((name) => [...read(join('src', name)).matchAll(/'(mooring_[a-z_]+)'/g)].map(([, metric]) => metric as string)),
);

describe('the metrics', () => {
  it('are all explained in docs/guides/monitoring.md', () => {
    expect(told.size).toBeGreaterThan(10);
    const manual = read('docs/guides/monitoring.md');
    expect([...told].filter((metric) => !manual.includes(`\`${metric}\``))).toEqual([]);
  });

  it('are all on the dashboard, which shows no others of ours', () => {
    const shown = new Set(
      [...read('docs/guides/grafana-dashboard.json').matchAll(/\bmooring_[a-z_]+/g)].map(([name]) =>
        name.replace(/_(bucket|count|sum)$/, ''),
      ),
    );
    expect([...shown].toSorted()).toEqual([...told].toSorted());
  });
});
