import fc from 'fast-check';

import { basesOf } from './dockerfile-bases.ts';

describe('the images that a Dockerfile takes files from', () => {
  it.each<[string, string[]]>([
    ['FROM node:22-slim\nCOPY . /app', ['node:22-slim']],
    ['# syntax=docker/dockerfile:1\nfrom node:22 AS x', ['node:22']],
    ['FROM scratch\nCOPY x /x', []],
    ['FROM golang:1 AS build\nRUN go build\nFROM scratch\nCOPY --from=build /a /a', ['golang:1']],
    ['FROM golang:1\nFROM alpine:3\nCOPY --from=0 /a /a', ['golang:1', 'alpine:3']],
    ['FROM a/b:1 AS Base\nFROM base AS next\nFROM NEXT', ['a/b:1']],
    ['ARG V=22\nARG IMAGE="node:${V}"\nFROM $IMAGE', ['node:22']],
    ['FROM --platform=linux/amd64 node:22', ['node:22']],
    ['FROM \\\n  # a comment\n\n  node:22', ['node:22']],
    ['FROM alpine\nCOPY --chown=1:1 --from=busybox:1 /bin/sh /sh', ['alpine', 'busybox:1']],
    ['FROM alpine\nADD --chown=1:1 files/*.txt /x/', ['alpine']],
    ['FROM alpine\r\nRUN echo hello\r\n', ['alpine']],
    ['FROM alpine\nHEALTHCHECK --interval=5s --retries=3 CMD true', ['alpine']],
    ['FROM alpine\nCOPY --chown=$USER:${GROUP} --chmod=0755 . /app', ['alpine']],
    ['FROM alpine\nLABEL org.example.title="made for mooring. And others"', ['alpine']],
  ])('%j are these', (dockerfile, bases) => {
    expect(basesOf(dockerfile)).toEqual(bases);
  });

  it.each([
    '',
    'RUN echo',
    'FROM',
    'FROM $SECRET',
    'FROM ${X:-node}',
    `FROM sha256:${'0'.repeat(64)}`,
    'FROM "node"',
    "ARG B=other/secret:1\nARG A='x B=alpine C='\nFROM $B",
    'ARG B=other/secret:1\nARG B=alpine\nFROM $B',
    'FROM no\\de',
    'FROM alpine\nCOPY --from=1 /a /a',
    'FROM alpine\nCOPY --from=0 /a /a',
    'FROM alpine\nCOPY --from=$X /a /a',
    `FROM alpine\nCOPY --from=${'0'.repeat(64)} /a /a`,
    'FROM alpine\nADD http://169.254.169.254/latest /x',
    'FROM alpine\nadd HTTP://169.254.169.254/latest /x',
    'FROM alpine\nADD ["http://169.254.169.254/latest", "/x"]',
    'FROM alpine\nADD ht\\\ntp://169.254.169.254/latest /x',
    'FROM alpine\nADD \\\n# a comment\nhttp://169.254.169.254/latest /x',
    'FROM alpine\nADD ht""tp://169.254.169.254/latest /x',
    'FROM alpine\nENV U=http://169.254.169.254\nADD $U /x',
    'FROM alpine\nADD git@github.com:a/b.git /x',
    'FROM alpine\nADD https://github.com/a/b.git#main /x',
    'FROM alpine\nONBUILD ADD http://169.254.169.254/latest /x',
    'FROM alpine\nONBUILD RUN true',
    '# escape=`\nFROM alpine\nADD ht`\ntp://169.254.169.254/latest /x',
    'FROM alpine\nRUN --mount=type=bind,from=other/secret:1,target=/x true',
    'FROM alpine\nRUN --"mount=type=bind,from=other/secret:1,target=/x" true',
    'FROM alpine\nRUN --network=host true',
    'FROM alpine\nCOPY --"from=other/secret:1" /a /a',
    'FROM alpine\nCOPY --fr\\om=other/secret:1 /a /a',
    "FROM alpine\nCOPY --f'r'om=other/secret:1 /a /a",
    'FROM alpine\nCOPY --FROM=other/secret:1 /a /a',
    'FROM alpine\nCOPY --from="other/secret:1" /a /a',
    'FROM alpine\nCOPY --chown=1:1 --"from=127.0.0.1:8497/x:1" /a /a',
    'FROM alpine\nCOPY -- --from=other/secret:1 /a',
    'FROM --"platform=x" alpine',
    'FROM alpine\nCMD --x=y true',
    'FROM alpine\nLABEL mooring.agent=x',
    'FROM alpine\nLABEL a=b "mooring.instance"=x',
    'FROM alpine\nLABEL moo"ring.all"ow=x',
    'FROM alpine\nLABEL mooring.agent x',
    'FROM alpine\nCOPY <<EOF /x\nADD http://a\nEOF',
    'FROM alpine\nRUN echo \\\\\nADD http://a /x',
    'FROM alpine\nRUN true \\\n\ufeff# x\nADD http://a /x',
    'FROM alpine\nRUN true \\\n\u00a0# x\nADD http://a /x',
    'FROM alpine\nRUN true \\\n # x\nADD http://a /x',
    'FROM alpine\nADD\\\n http://a /x',
    'FROM alpine\nFETCH http://a /x',
    'FROM alpine\nRUN true\rADD http://a /x',
    'FROM alpine AS other/secret:1\nFROM other/secret:1',
    Array.from({ length: 17 }, (_, n) => `FROM image${n}`).join('\n'),
  ])('%j is refused', (dockerfile) => {
    expect(() => basesOf(dockerfile)).toThrow(expect.objectContaining({ name: 'RepositoryRefused' }));
  });

  it('include the one of every FROM, wherever its line is broken', () => {
    const gap = fc.constantFrom(' ', '\t', ' \\\n', ' \\\n# a comment\n', ' \\\n\n ');
    fc.assert(
      fc.property(gap, fc.constantFrom('FROM', 'from', 'FrOm'), fc.constantFrom('', '# x\n', '\ufeff'), (between, from, before) => {
        expect(basesOf(`${before}${from}${between}other/secret:1\nRUN true`)).toEqual(['other/secret:1']);
      }),
    );
  });
});
