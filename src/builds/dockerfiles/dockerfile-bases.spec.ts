import fc from 'fast-check';

import { basesOf, needsOf } from './dockerfile-bases.ts';

/** Every builder takes these. */
const usual: [string, string[]][] = [
  ['FROM node:22-slim\nCOPY . /app', ['node:22-slim']],
  ['# syntax=docker/dockerfile:1\nfrom node:22 AS x', ['node:22']],
  ['FROM scratch\nCOPY x /x', []],
  ['FROM golang:1 AS build\nRUN go build\nFROM scratch\nCOPY --from=build /a /a', ['golang:1']],
  ['FROM golang:1\nFROM alpine:3\nCOPY --from=0 /a /a', ['golang:1', 'alpine:3']],
  ['FROM a/b:1 AS Base\nFROM base AS next\nFROM next', ['a/b:1']],
  ['ARG V=22\nARG IMAGE="node:${V}"\nFROM $IMAGE', ['node:22']],
  ["ARG DESC='two words'\nARG EMPTY\nFROM node:${EMPTY:-22}${DESC:+-slim}", ['node:22-slim']],
  ["ARG B=alpine\nARG A='x B=other/secret:1 C='\nFROM $B", ['alpine']],
  ['FROM --platform=linux/amd64 node:22', ['node:22']],
  ['FROM \\\n  # a comment\n\n  node:22', ['node:22']],
  ['FROM alpine\nCOPY --chown=1:1 --from=busybox:1 /bin/sh /sh', ['alpine', 'busybox:1']],
  ['FROM alpine\nADD --chown=1:1 files/*.txt /x/', ['alpine']],
  ['FROM alpine\r\nRUN echo hello\r\n', ['alpine']],
  ['FROM alpine\nHEALTHCHECK --interval=5s --retries=3 CMD true', ['alpine']],
  ['FROM alpine\nCOPY --chown=$USER:${GROUP} . /app', ['alpine']],
  ['FROM alpine\nLABEL org.example.title="made for mooring. And others"', ['alpine']],
  // The text of comments is not read.
  ['# 👩‍💻 Étape\u00a01 <<EOF\nFROM alpine\n\t# ADD http://a /x\nRUN true', ['alpine']],
  // Lines that go on with words of instructions begin none.
  ['FROM alpine\nRUN true && \\\n    add-apt-repository x\nRUN python -c "\\\nfrom a import b"', ['alpine']],
  ['FROM alpine\nRUN true \\\n # a comment\nADD http://a /x', ['alpine']],
  ['FROM alpine\nRUN true \\\n\u00a0# a comment\n\nADD http://a /x', ['alpine']],
  ['FROM alpine\nRUN echo "see <<README>> for more" and x<<y', ['alpine']],
];

/** No builder takes these. */
const refused: [string, number][] = [
  ['RUN echo', 1],
  ['FROM', 1],
  ['FROM $SECRET', 1],
  ['FROM ${X?}', 1],
  [`FROM sha256:${'0'.repeat(64)}`, 1],
  ['FROM alpine\n\nFROM no\\de:', 3],
  ['FROM alpine as a b', 1],
  ['ARG "A=b"\nFROM alpine', 1],
  ['FROM alpine\nCOPY --from=1 /a /a', 2],
  ['FROM alpine\nCOPY --from=$X /a /a', 2],
  ['FROM alpine\nCOPY --from /a /a', 2],
  ['FROM alpine\nCOPY --from= /a /a', 2],
  [`FROM alpine\nCOPY --from=${'a'.repeat(64)} /a /a`, 2],
  ['FROM alpine\nADD http://169.254.169.254/latest /x', 2],
  ['FROM alpine\nadd HTTP://169.254.169.254/latest /x', 2],
  ['FROM alpine\nADD ftp://169.254.169.254/latest /x', 2],
  ['FROM alpine\nADD ["http://169.254.169.254/latest", "/x"]', 2],
  ['FROM alpine\nADD ht\\\ntp://169.254.169.254/latest /x', 2],
  ['FROM alpine\nADD \\\n# a comment\nhttp://169.254.169.254/latest /x', 2],
  ['FROM alpine\nADD ht""tp://169.254.169.254/latest /x', 2],
  ["FROM alpine\nADD 'ht'tp\\://169.254.169.254/latest /x", 2],
  ['FROM alpine\nENV U=http://169.254.169.254\nADD $U /x', 3],
  ['ARG U=http://a\nFROM alpine\nARG U\nADD ${U} /x', 4],
  ['FROM alpine\nARG U\nADD ${U:-http://a} /x', 3],
  ['FROM alpine\nADD git@github.com:a/b.git /x', 2],
  ['FROM alpine\nADD a.txt someone@example.com:a/b.git#main /x/', 2],
  ['FROM alpine\nADD https://github.com/a/b.git#main /x', 2],
  ['FROM alpine\nADD --keep-git-dir=true https://github.com/a/b.git /x', 2],
  ['FROM alpine\nADD --checksum=sha256:0 x /x', 2],
  ['FROM alpine\nONBUILD ADD http://169.254.169.254/latest /x', 2],
  ['FROM alpine\nONBUILD COPY --"from=other/secret:1" /a /a', 2],
  ['FROM alpine\nONBUILD ONBUILD RUN true', 2],
  ['FROM alpine\nONBUILD FROM other/secret:1', 2],
  ['FROM alpine\nONBUILD', 2],
  ['FROM alpine\nRUN --"mount=type=bind,from=other/secret:1,target=/x" true', 2],
  ['FROM alpine\nRUN --mount="type=cache,target=/x" true', 2],
  ['FROM alpine\nRUN --mount=type=ssh true', 2],
  ['FROM alpine\nRUN --mount=target=/x,TYPE=SSH true', 2],
  ['FROM alpine\nRUN --mount=type=$T,target=/x true', 2],
  ['FROM alpine\nRUN --mount=from=$T,target=/x true', 2],
  ['FROM alpine\nRUN --mount=from=0,target=/x true', 2],
  ['FROM alpine\nRUN --network=host true', 2],
  ['FROM alpine\nRUN --network=none true', 2],
  ['FROM alpine\nRUN --security=insecure true', 2],
  ['FROM alpine\nRUN --device=vendor.com/x=1 true', 2],
  ['FROM alpine\nCOPY --"from=other/secret:1" /a /a', 2],
  ['FROM alpine\nCOPY --fr\\om=other/secret:1 /a /a', 2],
  ["FROM alpine\nCOPY --f'r'om=other/secret:1 /a /a", 2],
  ['FROM alpine\nCOPY --FROM=other/secret:1 /a /a', 2],
  ['FROM alpine\nCOPY --from="other/secret:1" /a /a', 2],
  ['FROM alpine\nCOPY --chown=1:1 --"from=127.0.0.1:8497/x:1" /a /a', 2],
  ['FROM alpine\nCOPY --chown=é --from=other/secret:1 /a /a', 2],
  ['FROM alpine\nCOPY \ufffd--from=other/secret:1 /a /a', 2],
  ['FROM --"platform=x" alpine', 1],
  ['FROM alpine\nCMD --x=y true', 2],
  ['FROM alpine\nCOPY --link=yes a /a', 2],
  ['FROM alpine\nCOPY --constructor=a a /a', 2],
  ['FROM alpine\nLABEL mooring.agent=x', 2],
  ['FROM alpine\nLABEL a=b "mooring.instance"=x', 2],
  ['FROM alpine\nLABEL moo"ring.all"ow=x', 2],
  ['FROM alpine\nLABEL mooring.agent x', 2],
  ['FROM alpine\nENV M=mooring\nLABEL ${M}.agent=x', 3],
  ['FROM alpine\nLABEL ${M}.agent=x', 2],
  ['FROM alpine\nLABEL a=b c', 2],
  ['FROM alpine\nRUN echo \\\\\nADD http://a /x', 3],
  ['FROM alpine\nRUN true \\\n\ufeff# x\nADD http://a /x', 4],
  ['FROM alpine\nRUN true \\\r\r\nADD http://a /x', 2],
  ['FROM alpine\nADD\\\n http://a /x', 2],
  ['FROM alpine\nFETCH http://a /x', 2],
  ['FROM alpine\nRUN [1]', 2],
  ['FROM alpine\nRUN echo "it <<EOF', 2],
  ['FROM alpine AS other/secret:1\nFROM other/secret:1', 1],
  ['# syntax=evil.example/frontend\nFROM alpine', 1],
  ['#!/usr/bin/env docker\n#  SYNTAX = docker/dockerfile.evil\nFROM alpine', 2],
  ['# escape=x\nFROM alpine', 1],
  [`FROM alpine\nRUN echo ${'${x:-'.repeat(60)}<<EOF`, 2],
  [`FROM alpine\nRUN ${'x'.repeat(64 * 1024)}`, 2],
];

/** BuildKit takes these, and the engine's own builder does not. */
const onlyBuildKit: [string, string[]][] = [
  ['FROM alpine\nRUN --mount=type=cache,target=/var/cache/npm --mount=type=tmpfs,target=/t true', ['alpine']],
  ['FROM alpine\nRUN --mount=type=secret,id=token,required=true --mount=source=a,target=/a true', ['alpine']],
  ['FROM alpine\nRUN --mount=type=bind,from=other/files:1,target=/x true', ['alpine', 'other/files:1']],
  ['FROM alpine\nRUN --mount=target=/x,FROM=other/files:1 true', ['alpine', 'other/files:1']],
  [
    'FROM golang:1 AS build\nFROM alpine\nRUN --mount=from=Build,target=/x --mount=type=cache,from=scratch,target=/y true',
    ['golang:1', 'alpine'],
  ],
  ['FROM alpine\nCOPY --link --parents --chmod=u=rwX --exclude=*.md --exclude=*.txt a b /x/', ['alpine']],
  ['FROM alpine\nADD --link=true --unpack=false --chmod=0755 --exclude=x a.tar /x/', ['alpine']],
  ['FROM alpine\nCOPY <<EOF <<-"B" /x/\nADD http://a /x\nEOF\n\tFROM other/secret:1\n\tB\nCOPY --from=busybox a /a', ['alpine', 'busybox']],
  ['FROM alpine\nRUN <<EOF\nADD http://a /x\nEOF', ['alpine']],
  ['FROM alpine\nRUN cat << EOF\nADD http://a /x\nEOF\n', ['alpine']],
  ['FROM alpine\nRUN cat <<E""OF\r\nADD http://a /x\r\nEOF\r\n', ['alpine']],
  ['FROM alpine\nONBUILD RUN <<EOF\nFROM other/secret:1\nEOF', ['alpine']],
  ['FROM alpine\nONBUILD COPY --from=busybox /a /a\nONBUILD RUN --mount=from=golang:1,target=/x true', ['alpine', 'busybox', 'golang:1']],
  ['FROM alpine\nCOPY -- --from=other/secret:1 /a', ['alpine']],
  ['# escape=`\nFROM alpine\nCOPY a`\n /b', ['alpine']],
  ['FROM "node:22"', ['node:22']],
  ['ARG A=1\nARG A=2 B=node:$A\nFROM $B', ['node:2']],
  ['FROM alpine AS files-linux\nFROM files-${TARGETOS}', ['alpine']],
  ['FROM alpine\nADD $HOME/x "a b" ["c /x/', ['alpine']],
];

describe('the images from which a Dockerfile copies files', () => {
  it.each(usual)('%j are these for every builder', (dockerfile, bases) => {
    for (const builder of ['buildkit', 'engine'] as const) expect(basesOf(dockerfile, builder)).toEqual(bases);
  });

  it.each(onlyBuildKit)('%j are these for BuildKit', (dockerfile, bases) => {
    expect(basesOf(dockerfile, 'buildkit')).toEqual(bases);
    expect(() => basesOf(dockerfile, 'engine')).toThrow(expect.objectContaining({ name: 'RepositoryRefused' }));
  });

  it.each(refused)('%j is refused', (dockerfile, line) => {
    for (const builder of ['buildkit', 'engine'] as const) {
      const refusal = { name: 'RepositoryRefused', message: expect.stringMatching(new RegExp(`^Line ${line} of the Dockerfile .*\\.$`)) };
      expect(() => basesOf(dockerfile, builder)).toThrow(expect.objectContaining(refusal));
    }
  });

  it.each(['', '\n# nothing\n', 'ARG A', Array.from({ length: 17 }, (_, n) => `FROM image${n}`).join('\n')])(
    '%j is refused whole',
    (dockerfile) => {
      expect(() => basesOf(dockerfile, 'buildkit')).toThrow(/^The Dockerfile .*\.$/);
    },
  );

  it.each([
    'FROM alpine\nRUN --mount=type=cache,target=/x true',
    'FROM alpine\nCOPY --chmod=755 a /a',
    'FROM alpine\nCOPY <<EOF /a\nEOF',
    'FROM alpine\nONBUILD RUN true',
    '# escape=`\nFROM alpine',
  ])('%j is refused for the engine’s own builder with what would build it', (dockerfile) => {
    expect(() => basesOf(dockerfile, 'engine')).toThrow('MOORING_BUILDER=buildkit');
  });

  it.each([
    'FROM "node"',
    'FROM node$TARGETARCH',
    'ARG B=other/secret:1\nARG B=alpine\nFROM $B',
    'ARG B=other/secret:1\nARG A=1 B=$A\nFROM $B',
    'FROM alpine\nCOPY --from=0 /a /a',
    'FROM alpine\nADD $FILE /x',
    'FROM alpine\nADD "x" /x',
    '# syntax=docker/dockerfile:1\n# escape=`\nFROM alpine',
    '# a comment\n# escape=`\nFROM alpine',
  ])('%j, which engines may read in another way, is refused for their own builder', (dockerfile) => {
    expect(() => basesOf(dockerfile, 'engine')).toThrow(expect.objectContaining({ name: 'RepositoryRefused' }));
  });

  it('do not include the names of stages', () => {
    const dockerfile = 'FROM golang:1 AS a\nCOPY --from=b /a /a\nFROM alpine AS b\nCOPY --from=B /a /a\nCOPY --from=A /a /a';
    expect(basesOf(dockerfile, 'buildkit')).toEqual(['golang:1', 'alpine']);
    // The engine's own builder knows a stage by its name once it has been built.
    expect(basesOf(dockerfile.replace('=B', '=b'), 'engine')).toEqual(['golang:1', 'b', 'alpine']);
  });

  it.each<[string, string[], Record<string, string>]>([
    ['ARG TAG=20\nFROM node:$TAG', ['node:22'], { TAG: '22' }],
    ['ARG TAG\nFROM node:${TAG:-20}', ['node:22'], { TAG: '22' }],
    // Only what the file declares, where it declares it.
    ['FROM node\nARG API_URL\nENV X=$API_URL', ['node'], { API_URL: 'https://api.example.com' }],
    ['FROM node\nRUN true', ['node'], {}],
    // A value is taken as it is.
    ['ARG NAME\nARG B=x\nFROM alpine:${B}', ['alpine:x'], { NAME: '$B' }],
    // Builders give these themselves, or would build otherwise.
    ['ARG TARGETARCH\nFROM alpine\nARG BUILDKIT_SYNTAX', ['alpine'], {}],
  ])('%j are these with the values that its arguments get', (dockerfile, bases, args) => {
    const given = { TAG: '22', API_URL: 'https://api.example.com', NAME: '$B', TARGETARCH: 'x', BUILDKIT_SYNTAX: 'evil.example/x' };
    for (const builder of ['buildkit', 'engine'] as const) expect(needsOf(dockerfile, builder, given)).toEqual({ bases, args });
  });

  it('are refused if the value of an argument names an address', () => {
    const given = { U: 'http://169.254.169.254/x', I: 'no image' };
    expect(() => needsOf('FROM alpine\nARG U=files\nADD $U /x', 'buildkit', given)).toThrow('ADD that may fetch');
    expect(() => needsOf('ARG I=alpine\nFROM $I', 'engine', given)).toThrow('not the name of an image');
  });

  it('must not have the name of a stage, since BuildKit would use the image for it', () => {
    expect(() => basesOf('FROM alpine:3\nFROM node AS node', 'buildkit')).toThrow(/^Line 2 .*Give the stage another name/);
    expect(basesOf('FROM node:22 AS node\nFROM node', 'buildkit')).toEqual(['node:22']);
    expect(basesOf('FROM node AS node', 'engine')).toEqual(['node']);
  });

  it('include the one of every FROM, wherever its line is broken', () => {
    const gap = fc.constantFrom(' ', '\t', ' \\\n', ' \\\n# a comment\n', ' \\\n\n ', '\\\n ', ' \\ \t\n');
    fc.assert(
      fc.property(gap, fc.constantFrom('FROM', 'from', 'FrOm'), fc.constantFrom('', '# x\n', '\ufeff'), (between, from, before) => {
        for (const builder of ['buildkit', 'engine'] as const)
          expect(basesOf(`${before}${from}${between}other/secret:1\nRUN true`, builder)).toEqual(['other/secret:1']);
      }),
    );
  });

  it('are found or refused, whatever the file holds', () => {
    const piece = fc.constantFrom(
      ...'FROM a|RUN |COPY --from=x |ADD |ONBUILD |ARG X|LABEL k=v|"|\'|\\|`|\\\n|\n|\r| |#|# escape=`\n|<<EOF|<<|EOF|$|${|}|:-|[|]|,|/|=|\ufffd|\u00a0|é'.split(
        '|',
      ),
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 20 }), fc.constantFrom('buildkit' as const, 'engine' as const), (pieces, builder) => {
        try {
          expect(basesOf(pieces.join(''), builder).length).toBeLessThan(17);
        } catch (error) {
          expect(error).toMatchObject({ name: 'RepositoryRefused' });
        }
      }),
    );
  });

  const size = 250_000;
  const full = (text: string): string => text.repeat(Math.floor(size / text.length));
  it.each<[string, string]>([
    ['spaces', `FROM a\n${full(`RUN${' '.repeat(60_000)}x\n`)}`],
    ['spaces after backslashes', `FROM a\n${full(`RUN \\${' '.repeat(60_000)}x\n`)}`],
    ['continued lines', `FROM a\nRUN ${full('x \\\n')}`],
    ['stages', full('FROM scratch as a\nCOPY --from=a b c\n')],
    ['here-documents', `FROM a\nRUN ${full('<<E \\\n')}\n${full('E\n')}`],
    ['a here-document after spaces', `FROM a\nRUN ${full(`<<${' '.repeat(60_000)}\\\n`)}x<`],
    ['variables in each other', `FROM a\nRUN <<EOF ${full('${a:-')}`],
    ['values that double', `FROM a\nENV A=aaaa\n${full('ENV A=$A$A\n')}ADD $A /x`],
    ['long values', `FROM a\nENV A=${'a'.repeat(16_000)}\n${full('ENV B=$A\n')}`],
    ['one word of long values', `FROM a\nENV A=${'a'.repeat(60_000)}\nENV B=${full('$A\\\n')}`],
    ['quotes', `FROM a\nLABEL ${full('"a\\" \\\n')}`],
    ['JSON', `FROM a\nRUN ${full('[ \\\n')}`],
    ['flags', `FROM a\nCOPY ${full('--from=a \\\n')} b c`],
  ])('are found or refused in time that grows with the file alone: %s', (_, dockerfile) => {
    const begun = performance.now();
    try {
      basesOf(dockerfile, 'buildkit');
    } catch (error) {
      expect(error).toMatchObject({ name: 'RepositoryRefused' });
    }
    // Time that grows with the square of the size would be minutes.
    expect(performance.now() - begun).toBeLessThan(5_000);
  });
});
