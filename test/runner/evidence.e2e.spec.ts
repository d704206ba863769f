import { StartedService } from '../support/started-service.ts';
import { collectEvidence } from './evidence.ts';

it('says what a started service printed, its events and how it ended, without its first credentials', async () => {
  const service = await StartedService.start({ runtime: 'docker' });
  try {
    const { url, password, api_key } = service.firstRun;
    const running = await collectEvidence();
    expect(running).toMatch(/^-- started service\nThe process runs\.\nthe last \d+ of \d+ log lines:\n/);
    expect(running).toContain(`Mooring listens on ${url}`);
    expect(running).toMatch(/ account-\S+ AccountOpened\n/);
    // The service's own helper may be among them.
    expect(running).toMatch(/^[01] containers:/m);

    await service.kill();
    const killed = await collectEvidence();
    expect(killed).toContain('The process has ended (SIGKILL).');
    expect(killed).toMatch(/ account-\S+ AccountOpened\n/);
    for (const secret of [password, api_key]) expect(running + killed).not.toContain(secret);
  } finally {
    await service.dispose();
  }
  expect(await collectEvidence()).toBe('');
});
