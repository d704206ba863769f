/** An error response of an engine, with its status. */
export class EngineProblem extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
    this.name = 'EngineProblem';
  }
}
