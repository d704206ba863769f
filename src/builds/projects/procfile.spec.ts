import { planOfFiles as plan } from '../../../test/support/planned-projects.ts';
import { PORT_WORD } from '../../runtime/project-plan.ts';

describe('a project without a Dockerfile', () => {
  it.each<[string, string, string[]]>([
    ['uvicorn main:app --port ${PORT:-8000}', 'uvicorn main:app --port 8080', []],
    ['uvicorn main:app --port "${PORT-8000}"', 'uvicorn main:app --port 8080', []],
    ['gunicorn app:app -w ${WEB_CONCURRENCY:-2}', 'gunicorn app:app -w 2', ['WEB_CONCURRENCY']],
    ['cd /app && uvicorn main:app --port $PORT', 'uvicorn main:app --port 8080', []],
  ])('with a Procfile is started by %j', (line, start, assumed) => {
    const found = plan({ Procfile: `web: ${line}\n`, 'requirements.txt': '' });
    expect(found.start).toEqual(start.split(' '));
    expect(found.notes).toEqual(assumed.map((name) => expect.stringContaining(`${name} had the default`)));
  });

  it.each<[string, Record<string, string>, string]>([
    [
      'a Procfile',
      { Procfile: 'web: MODE=8080 uvicorn main:app --workers 8080 --port $PORT', 'requirements.txt': '' },
      'uvicorn main:app --workers 8080 --port ${PORT}',
    ],
    [
      'a Procfile with the port in a word',
      { Procfile: 'web: gunicorn app:app --bind=0.0.0.0:"$PORT"', 'requirements.txt': '' },
      'gunicorn app:app --bind=0.0.0.0:${PORT}',
    ],
    [
      'its web server',
      { 'main.py': 'app = FastAPI()', 'requirements.txt': 'fastapi\nuvicorn' },
      'uvicorn main:app --host 0.0.0.0 --port ${PORT}',
    ],
    ['a program', { 'main.py': '' }, 'python main.py'],
  ])('keeps the word for a port that is chosen at the start, with %s', (_, files, start) => {
    expect(plan(files, PORT_WORD).start).toEqual(start.split(' '));
  });

  it('with a Procfile says which of its processes are not started', () => {
    const found = plan({ Procfile: 'clock: python c.py\nweb: python a.py\nworker: celery\n', 'requirements.txt': '' });
    expect(found.notes).toEqual(['Of the Procfile only web is started, and not clock, worker: an agent is one program']);
  });

  it.each<[string, Record<string, string>, string[]]>([
    [
      'beside web',
      { Procfile: 'release: python manage.py migrate\nweb: python a.py\n', 'requirements.txt': '' },
      ['python', 'manage.py', 'migrate'],
    ],
    ['without web', { Procfile: 'release: python -m db\n', 'main.py': '' }, ['python', '-m', 'db']],
    [
      'with variables in front',
      { Procfile: 'release: MODE=all node m.js $PORT', 'package.json': '{"main":"a.js"}' },
      ['env', 'MODE=all', 'node', 'm.js', '8080'],
    ],
  ])('has the release command of its Procfile %s', (_, files, command) => {
    const found = plan(files);
    expect(found).toMatchObject({ release: command });
    expect(JSON.stringify(found.notes ?? [])).not.toContain('release');
  });

  it('has no release command unless its Procfile names one, and is refused if that needs a shell', () => {
    expect(plan({ Procfile: 'web: python a.py\n', 'requirements.txt': '' })).not.toHaveProperty('release');
    const files = { Procfile: 'release: ./a.sh && ./b.sh\nweb: python a.py\n', 'requirements.txt': '' };
    expect(() => plan(files)).toThrow('The command of release in the Procfile needs a shell');
  });

  it('listens where it is reached if its server is not told otherwise', () => {
    const files = { Procfile: 'web: uvicorn main:app --port $PORT', 'requirements.txt': '' };
    expect(plan(files).env).toMatchObject({ UVICORN_HOST: '0.0.0.0' });
    expect(plan({ 'main.py': '' }).env).not.toHaveProperty('UVICORN_HOST');
  });
});
