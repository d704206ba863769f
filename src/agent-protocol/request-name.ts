/** The most characters of a path that an error names. */
const PATH_MAX = 200;

/** Returns the name of a request in errors: its method, its path, and the agent's port if it is known. A query may contain a secret. */
export function requestName(method: string, path: string, port?: number): string {
  const [name = ''] = path.split('?', 1);
  const shown = name.length > PATH_MAX ? `${name.slice(0, PATH_MAX)}…` : name;
  return `${method} ${shown}${port === undefined ? '' : ` on port ${port}`}`;
}
