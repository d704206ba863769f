import { RuntimeRefused } from '../../runtime.errors.ts';
import { refuseLargeConfig } from './large-config.ts';

describe('the configuration of an image', () => {
  const ports = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, at) => [`${at + 1}/tcp`, {}]));

  it('may be that of an ordinary one', () => {
    refuseLargeConfig(null);
    refuseLargeConfig({ ExposedPorts: ports(256), Labels: { description: 'x'.repeat(60_000) } });
  });

  it.each([
    ['every port is exposed', { ExposedPorts: ports(65_535) }, '65535 ports'],
    ['its labels are large', { Labels: { a: 'ä'.repeat(33_000) } }, 'labels'],
    ['its variables are large', { Env: [`A=${'x'.repeat(300_000)}`] }, 'configuration'],
  ])('is refused if %s', (_, config, said) => {
    expect(() => refuseLargeConfig(config)).toThrow(RuntimeRefused);
    expect(() => refuseLargeConfig(config)).toThrow(said);
  });
});
