import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { Templates } from './templates.ts';
import { TemplatesController } from './templates.controller.ts';

const variables = [{ name: 'KEY', description: 'The key.', required: true, secret: true }];
const template = {
  id: 'mine',
  name: 'Mine',
  description: 'An agent of mine.',
  source: { kind: 'program', language: 'node', start: ['node', 'agent.mjs'] },
  env: { A: 'private' },
  variables,
  resources: { memory_mb: 64 },
};

describe('the catalogue', () => {
  const folder = mkdtempSync(join(tmpdir(), 'mooring-templates-'));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it('is public, in camel case, without the members that only the service needs', () => {
    mkdirSync(join(folder, 'mine'));
    writeFileSync(join(folder, 'mine', 'template.json'), JSON.stringify(template));
    expect(new TemplatesController(Templates.read(folder)).list()).toEqual([
      { id: 'mine', name: 'Mine', description: 'An agent of mine.', protocol: 'mooring', port: 8080, memoryMb: 64, variables },
    ]);
  });
});
