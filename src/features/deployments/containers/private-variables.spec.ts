import { openRange } from '../../../kernel/network/open-ranges.ts';
import { privateVariables } from './private-variables.ts';

const open = [openRange('192.168.1.10:11434')].filter((range) => range !== null);
const told = (value: string) => privateVariables({ BASE_URL: value }, open).join('\n');

describe('a variable that leads to a private address', () => {
  it.each([
    ['http://user:hunter2@192.168.1.10/v1?key=hunter2', '192.168.1.10:80'],
    ['postgres://user:hunter2@10.0.0.5:5432/hunter2', '10.0.0.5:5432'],
    ['postgres://user:hunter2@10.0.0.5/hunter2', '10.0.0.5'],
    ['169.254.169.254', '169.254.169.254'],
    ['172.17.0.1:8080', '172.17.0.1:8080'],
    ['https://[fd00::5]/hunter2', '[fd00::5]:443'],
  ])('is reported with the setting that allows it, and nothing else of the value: %s', (value, entry) => {
    expect(told(value)).toContain(`BASE_URL leads to`);
    expect(told(value)).toMatch(new RegExp(`MOORING_AGENT_EGRESS_PRIVATE=${entry.replaceAll(/[[\].]/g, '\\$&')}\\.$`));
    expect(told(value)).not.toContain('hunter2');
    expect(openRange(entry)).not.toBeNull();
  });

  it.each([
    'http://192.168.1.10:11434/v1',
    'https://api.openai.com/v1',
    'http://203.0.113.7/',
    'http://127.0.0.1:8080/',
    'a text that mentions 10.0.0.1',
    '10',
    '',
  ])('is not meant by %j', (value) => {
    expect(told(value)).toBe('');
  });
});
