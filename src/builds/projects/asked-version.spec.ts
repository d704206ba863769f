import { json, planOfFiles as plan } from '../../../test/support/planned-projects.ts';

describe('the version of its language that a project asks for', () => {
  const python = { 'main.py': '', 'requirements.txt': '' };
  const node = (engines?: object) => ({ 'package.json': json({ main: 'a.js', ...(engines === undefined ? {} : { engines }) }) });

  it.each<[string, Record<string, string>, string]>([
    ['.python-version', { ...python, '.python-version': '# of the project\n3.14\n' }, 'Python 3.14 (.python-version)'],
    ['runtime.txt', { ...python, 'runtime.txt': 'python-3.12.1\r\n' }, 'Python 3.12.1 (runtime.txt)'],
    ['.nvmrc', { ...node(), '.nvmrc': 'v22.4.0' }, 'Node 22.4.0 (.nvmrc)'],
    ['the engines of package.json', node({ node: '>=20 <23' }), 'Node >=20 <23 (package.json)'],
  ])('stands in the build log, by %s', (_, files, asked) => {
    expect(plan(files).notes).toEqual([`The project asks for ${asked}, and gets the version of this installation`]);
  });

  it.each<[string, Record<string, string>]>([
    ['names none', python],
    ['names the other language only', { ...python, '.nvmrc': '22' }],
    ['has something else there', { ...python, '.python-version': 'myenv; rm -rf /' }],
    ['has no text there', node({ node: 22 })],
  ])('is not told of a project that %s', (_, files) => expect(plan(files).notes ?? []).toEqual([]));
});
