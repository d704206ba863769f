import { readFileSync } from 'node:fs';

import { SettingReader } from '../../src/kernel/config/setting-reader.ts';
import { readConfig } from '../../src/kernel/config/read-config.ts';
import { configurationPage, configurationText, settings } from './configuration.ts';
import { golden } from './golden.ts';

/** Returns the names of all variables that the service asks for. */
function askedFor(): Set<string> {
  const asked = new Set<string>();
  const text = jest.spyOn(SettingReader.prototype, 'text').mockImplementation((name) => {
    asked.add(name);
    return null;
  });
  try {
    readConfig({});
  } finally {
    text.mockRestore();
  }
  return asked;
}

describe('docs/reference/configuration.md', () => {
  it('matches the code that reads the settings', () => {
    golden(() => expect(readFileSync(configurationPage, 'utf8')).toBe(configurationText()));
  });

  it('describes every variable that the service reads', () => {
    const described = settings().filter(({ meaning }) => meaning !== null);
    expect(described.map(({ name }) => name).toSorted()).toEqual([...askedFor()].toSorted());
  });
});
