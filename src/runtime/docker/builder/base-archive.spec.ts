import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { gzipSync } from 'node:zlib';
import { extract, pack } from 'tar-stream';

import { partsOf } from './base-archive.ts';

type File = [name: string, content: string | Buffer] | [name: string, link: { to: string }];

const digest = (content: string | Buffer): string => createHash('sha256').update(content).digest('hex');

function archiveOf(...files: File[]): Readable {
  const tar = pack();
  for (const [name, content] of files)
    if (typeof content === 'object' && 'to' in content) tar.entry({ name, type: 'symlink', linkname: content.to });
    else tar.entry({ name }, content);
  tar.finalize();
  return Readable.from(tar, { objectMode: false });
}

async function converted(...files: File[]) {
  const { parts, layout } = partsOf(archiveOf(...files));
  const found = new Map<string, string>();
  const tar = extract();
  parts.on('error', (error) => tar.destroy(error));
  for await (const entry of parts.pipe(tar)) found.set(entry.header.name, (await buffer(entry)).toString('latin1'));
  return { parts: found, layout: await layout };
}

describe('an image that the engine exported', () => {
  const config = JSON.stringify({ rootfs: { diff_ids: [] } });

  it.each([
    ['a layer in its own folder', 'one/layer.tar', 'first', 'application/vnd.oci.image.layer.v1.tar'],
    ['a compressed layer', `blobs/sha256/${'1'.repeat(64)}`, gzipSync('first'), 'application/vnd.oci.image.layer.v1.tar+gzip'],
  ])('with %s becomes an OCI layout', async (_, name, content, mediaType) => {
    const manifest = JSON.stringify([{ Config: 'c.json', Layers: [name] }]);
    const { parts, layout } = await converted([name, content], ['c.json', config], ['manifest.json', manifest]);
    const written = Object.fromEntries(layout.entries.map((entry) => [entry.name, String(entry.content ?? '')]));
    expect(layout.moves).toEqual([{ number: 0, digest: digest(content) }]);
    expect(parts.get('parts/0')).toBe(Buffer.from(content).toString('latin1'));
    expect(written[`blobs/sha256/${digest(config)}`]).toBe(config);
    expect(JSON.parse(written[`blobs/sha256/${layout.digest}`] ?? '')).toMatchObject({
      config: { digest: `sha256:${digest(config)}` },
      layers: [{ mediaType, digest: `sha256:${digest(content)}`, size: content.length }],
    });
    expect(JSON.parse(written['index.json'] ?? '')).toMatchObject({ manifests: [{ digest: `sha256:${layout.digest}` }] });
  });

  it('with one layer twice, once as a link, has it once among its files and twice in its manifest', async () => {
    const manifest = JSON.stringify([{ Config: 'c.json', Layers: ['a/layer.tar', 'b/layer.tar'] }]);
    const files: File[] = [
      ['a/layer.tar', { to: '../b/layer.tar' }],
      ['b/layer.tar', 'both'],
      ['c.json', config],
      ['manifest.json', manifest],
    ];
    const { layout } = await converted(...files);
    expect(layout.moves).toEqual([{ number: 0, digest: digest('both') }]);
    const written = layout.entries.find(({ name }) => name === `blobs/sha256/${layout.digest}`);
    expect((JSON.parse(String(written?.content)) as { layers: unknown[] }).layers).toHaveLength(2);
  });

  it('discards all names of the archive', async () => {
    const manifest = JSON.stringify([{ Config: '../../c.json', Layers: ['../../../etc/passwd'] }]);
    const { parts } = await converted(['../../../etc/passwd', 'x'], ['../../c.json', config], ['manifest.json', manifest]);
    expect([...parts.keys()].every((name) => /^parts\/\d+$/.test(name))).toBe(true);
  });

  it('without its manifest, or a layer of it, is refused', async () => {
    await expect(converted(['c.json', config])).rejects.toThrow(/without its manifest/);
    const manifest = JSON.stringify([{ Config: 'c.json', Layers: ['gone'] }]);
    await expect(converted(['c.json', config], ['manifest.json', manifest])).rejects.toThrow(/without one of its layers/);
  });
});
