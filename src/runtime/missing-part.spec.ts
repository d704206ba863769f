import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { missingPart } from './missing-part.mjs';

describe('a program that is there and can’t be run', () => {
  const folder = mkdtempSync(join(tmpdir(), 'mooring-missing-part-'));
  afterAll(() => rmSync(folder, { recursive: true }));

  const missing = (content: string) => {
    writeFileSync(join(folder, 'program'), content, 'latin1');
    return missingPart('./program', folder);
  };

  it.each([
    ['#!/bin/sh\r\necho\r\n', /ends in a carriage return, .* \(\/bin\/sh\)/],
    ['#! /bin/sh\r', /ends in a carriage return, .* \(\/bin\/sh\)/],
    ['#!/opt/missing -x\r\n', /^the interpreter that its first line names is not there: \/opt\/missing$/],
    ['#!/opt/missing', /^the interpreter that its first line names is not there: \/opt\/missing$/],
    ['\x7fELF\x02\x01\x01', /loader .* link it statically/],
  ])('with the content %j names what it does not find', (content, said) => {
    expect(missing(content)).toMatch(said);
  });

  it('is not explained if it names nothing, or can’t be read', () => {
    expect(missing('echo\r\n')).toBeNull();
    expect(missing('')).toBeNull();
    expect(missingPart('./nothing', folder)).toBeNull();
    expect(missingPart(`${folder}/`, '/')).toBeNull();
    expect(missing('#!/opt/missing\n')).not.toBeNull();
    expect(missingPart('program', folder)).toBeNull();
  });
});
