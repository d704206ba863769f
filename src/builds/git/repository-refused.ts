/** A repository can't be fetched, or not be deployed. The message is for the build log and holds no credential. */
export class RepositoryRefused extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'RepositoryRefused';
  }
}
