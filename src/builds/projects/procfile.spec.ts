import { planOfFiles as plan } from '../../../test/support/planned-projects.ts';

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

  it.each<[string, Record<string, string>, number[]]>([
    ['a Procfile', { Procfile: 'web: MODE=8080 uvicorn main:app --workers 8080 --port $PORT', 'requirements.txt': '' }, [5]],
    ['a Procfile with the port in a word', { Procfile: 'web: gunicorn app:app --bind=0.0.0.0:$PORT', 'requirements.txt': '' }, [2]],
    ['its web server', { 'main.py': 'app = FastAPI()', 'requirements.txt': 'fastapi\nuvicorn' }, [5]],
    ['a program', { 'main.py': '' }, []],
  ])('says which words of its start command hold the port, with %s', (_, files, words) => {
    expect(plan(files).portWords ?? []).toEqual(words);
  });

  it('with a Procfile says which of its processes are not started', () => {
    const found = plan({ Procfile: 'release: python migrate.py\nweb: python a.py\nworker: celery\n', 'requirements.txt': '' });
    expect(found.notes).toEqual(['Of the Procfile only web is started, and not release, worker: an agent is one program']);
  });

  it('listens where it is reached if its server is not told otherwise', () => {
    const files = { Procfile: 'web: uvicorn main:app --port $PORT', 'requirements.txt': '' };
    expect(plan(files).env).toMatchObject({ UVICORN_HOST: '0.0.0.0' });
    expect(plan({ 'main.py': '' }).env).not.toHaveProperty('UVICORN_HOST');
  });
});
