import type { RuntimeFixture } from './runtime.fixture.contract.ts';

export function times(bed: RuntimeFixture): void {
  it('reports when a run ended, until the next one begins', async () => {
    const begun = Date.now();
    const view = await bed.ended({ EXIT: '3' });
    const { startedAt, finishedAt } = view;
    const [from, to] = [startedAt, finishedAt].map((time) => Date.parse(time as string)) as [number, number];
    expect([begun - 1_000 < from, from <= to, to < Date.now() + 1_000]).toEqual([true, true, true]);
    const running = await bed.running();
    expect(running.finishedAt).toBeNull();
    await bed.runtime.stop(running.handle, 1);
    expect(Date.parse((await bed.inspect(running)).finishedAt as string)).toBeGreaterThanOrEqual(to);
    await bed.start(running);
    expect((await bed.inspect(running)).finishedAt).toBeNull();
  });

  it('reports its state changes since a time, and none for an unknown container', async () => {
    const begun = new Date(Date.now() - 1_000).toISOString();
    const view = await bed.running();
    const statesSince = async (since: string) => (await bed.runtime.transitions(view.handle, since)).map(({ state }) => state);
    expect(await statesSince(begun)).toEqual(['running']);
    const isFreezing = (await bed.runtime.capabilities()).freeze;
    if (isFreezing) {
      const before = Date.now();
      await bed.runtime.freeze(view.handle);
      await bed.runtime.freeze(view.handle);
      const [frozen] = (await bed.runtime.transitions(view.handle, begun)).slice(-1);
      expect(frozen?.state).toBe('frozen');
      expect(Date.parse(frozen?.at ?? '')).toBeGreaterThanOrEqual(before - 5);
      expect(Date.parse(frozen?.at ?? '')).toBeLessThanOrEqual(Date.now() + 5);
      await bed.runtime.thaw(view.handle);
      expect(await statesSince(begun)).toEqual(['running', 'frozen', 'running']);
    }
    await bed.runtime.stop(view.handle, 1);
    expect((await statesSince(begun)).at(-1)).toBe('exited');
    const later = new Date(Date.now() + 10).toISOString();
    await bed.start(view);
    expect(await statesSince(later)).toEqual(['running']);
    expect(await bed.runtime.transitions(await bed.removed().then(({ handle }) => handle), later)).toEqual([]);
  });
}
