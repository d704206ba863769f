/** The engine can't be reached, or hangs. The outcome of the call is unknown; try again later. */
export class RuntimeUnavailable extends Error {
  constructor(cause: unknown, message = 'the container engine does not answer') {
    super(message, { cause });
    this.name = 'RuntimeUnavailable';
  }
}

/** The engine answers, and can't be used. That counts as unavailable, since agents have to be left as they are; `message` says why. */
export class EngineUnsupported extends RuntimeUnavailable {
  constructor(reason: string) {
    super(undefined, reason);
    this.name = 'EngineUnsupported';
  }
}

/** The engine refused the call, and would refuse it again. `message` may be shown in the build log. */
export class RuntimeRefused extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'RuntimeRefused';
  }
}

/** The engine does not have the pinned image of a deployment any more. */
export class ImageGone extends RuntimeRefused {
  constructor(
    readonly image: string,
    name = image,
  ) {
    super(`The engine does not have the image ${name} of that deployment any more. Deploy it anew.`);
    this.name = 'ImageGone';
  }
}

/** The engine had the image a moment ago, and has lost it since. Whoever still needs it gets it anew. */
export class ImageLost extends RuntimeRefused {
  constructor(name: string, options?: ErrorOptions) {
    super(`The engine has lost the image ${name}, or a layer of it, before it was used. Deploy again.`, options);
    this.name = 'ImageLost';
  }
}

/** The start command is a shell string; `message` says so and how to write it. */
export class ShellCommand extends RuntimeRefused {
  constructor(command: string[]) {
    super(
      `The start command is a shell string: ${JSON.stringify(command)}. A shell would stand between the agent and its signals. ` +
        'Write it in exec form, a JSON array of the program and its arguments, such as CMD ["node", "server.js"] instead of CMD node server.js.',
    );
    this.name = 'ShellCommand';
  }
}

/** The container of the handle no longer exists. */
export class ContainerGone extends Error {
  constructor(handle: string) {
    super(`container ${handle} is gone`);
    this.name = 'ContainerGone';
  }
}
