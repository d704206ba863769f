import { RuntimeFixture, type RuntimeUnderTest } from './runtime.fixture.contract.ts';
import { files } from './runtime.files.contract.ts';
import { dials } from './runtime.dial.contract.ts';
import { commands } from './runtime.commands.contract.ts';
import { fileAttacks } from './runtime.attacks.contract.ts';
import { adoption, creation, lifecycle, processes, sleep } from './runtime.life.contract.ts';
import { sessions } from './runtime.sessions.contract.ts';
import { terminals } from './runtime.terminal.contract.ts';
import { times } from './runtime.times.contract.ts';
import { archives, events, exec, logs } from './runtime.work.contract.ts';

export type { RuntimeUnderTest };

/** Declares the tests that every runtime must pass. Each test has its own agents; the image is built once. */
export function runtimeContract(name: string, make: () => Promise<RuntimeUnderTest>): void {
  describe(`the ${name} runtime`, () => {
    const bed = new RuntimeFixture(make);
    beforeAll(() => bed.open());
    afterAll(() => bed.close());
    describe('images and containers', () => creation(bed));
    describe('a container’s life', () => lifecycle(bed));
    describe('sleep', () => sleep(bed));
    describe('processes that the program starts', () => processes(bed));
    describe('the times of a container’s life', () => times(bed));
    describe('after a crash of the service', () => adoption(bed));
    describe('logs', () => logs(bed));
    describe('events', () => events(bed));
    describe('exec', () => exec(bed));
    describe('commands that go on', () => commands(bed));
    describe('sessions', () => sessions(bed));
    describe('terminals', () => terminals(bed));
    describe('connections into a container', () => dials(bed));
    describe('archives', () => archives(bed));
    describe('files', () => files(bed));
    describe('files of a hostile agent', () => fileAttacks(bed, { isolates: name !== 'local' }));
  });
}
