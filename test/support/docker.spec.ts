import { reportNoEngine } from './docker.ts';

describe('a missing Docker Engine', () => {
  it('fails the run in continuous integration', () => {
    expect(() => reportNoEngine('containers', 'true')).toThrow('the tests of "containers" were NOT run');
  });

  it('prints a warning elsewhere', () => {
    const warn = jest.spyOn(console, 'warn').mockReturnValue(undefined);
    reportNoEngine('containers', undefined);
    reportNoEngine('containers', 'false');
    expect(warn).toHaveBeenCalledTimes(2);
    warn.mockRestore();
  });
});
