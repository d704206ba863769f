/** What an engine answers with a status of its own. */
export class EngineProblem extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
    this.name = 'EngineProblem';
  }
}
