import { startCommandAt } from './start-command.ts';

describe('a start command on the local runtime', () => {
  const spec = { command: null, port: 8080 };

  it('has the port of the host in the words that hold the container’s port, and in no other one', () => {
    const start = ['serve', '8080', '--bind=0.0.0.0:8080', '18080', '8080'];
    expect(startCommandAt(20_001, spec, { start, portWords: [2, 3, 4] })).toEqual([
      'serve',
      '8080',
      '--bind=0.0.0.0:20001',
      '18080',
      '20001',
    ]);
  });

  it('is the container’s own if it has one', () => {
    expect(startCommandAt(20_001, { ...spec, command: ['other', '8080'] }, { start: ['serve'] })).toEqual(['other', '8080']);
  });
});
