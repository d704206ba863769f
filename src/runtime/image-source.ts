import type { BuildSettings, ProjectPlan } from './project-plan.ts';
import type { RegistryCredential } from './registry-credential.ts';

/** An image of a registry, or one that the engine has already. */
export interface ReferenceSource {
  kind: 'reference';
  reference: string;
  /**
   * Returns whether the engine's image of that name, given by digest or id, may be used; otherwise the image is pulled.
   */
  mayUse: (image: string) => Promise<boolean>;
  /** Throws `RuntimeRefused` if the image must not be pulled. It is asked right before each pull, and not for an image that is used as it is. */
  beforePull?: () => Promise<void>;
  /** Returns the credential for the image's registry; null if there is none. It is asked for right before a pull. */
  credential?: () => Promise<RegistryCredential | null>;
  /** The start command, in exec form; null or absent means the image's own. */
  start?: string[] | null;
}

/** A folder with a Dockerfile. */
export interface DockerfileSource {
  kind: 'dockerfile';
  directory: string;
  dockerfile: string;
  /** The start command, in exec form, in place of the ENTRYPOINT and CMD of the image; null means the image's own. */
  start: string[] | null;
  /** The account that it is built for, and with what was built for it before. */
  accountId: string;
  /** The images that it names, as it writes them. They are fetched as `reference` says before it is built, which takes nothing from elsewhere. */
  bases?: ReferenceSource[];
  /** The values of its arguments. None of them is secret: they are seen in the image's history. */
  args?: Record<string, string>;
  /** The secrets that its steps may mount (`RUN --mount=type=secret,id=NAME`), by their ids. They are seen in no layer and no history. */
  secrets?: Record<string, string>;
}

/** The source of an image; `computer` stands for the desktop of computers. */
export type ImageSource =
  | ReferenceSource
  | DockerfileSource
  /** One of our programs for a language runtime: the folder's files on that runtime's base image, started by `start`. */
  | { kind: 'program'; directory: string; language: 'node'; start: string[] }
  /**
   * A project without a Dockerfile, which is installed, built and started as the plan says. `port` is the one on which its agent listens; absent if
   * the plan has no `PORT_WORD`.
   */
  | { kind: 'project'; directory: string; plan: ProjectPlan; settings: BuildSettings; port?: number }
  | { kind: 'computer' }
  /** An image as an earlier call returned it. It is refused if the engine does not have it any more. */
  | { kind: 'earlier'; earlier: ResolvedImage };

export interface ResolvedImage {
  /** The pinned image: a digest or an image id; for the local runtime the folder's content hash. */
  image: string;
  /** The name for display. */
  name: string;
  /** The command, in exec form, that a container of it will run. A shell string is refused with `ShellCommand`. */
  command: string[];
  /** The port that the image exposes (EXPOSE), if it exposes exactly one; absent for images that Mooring itself makes. */
  exposedPort?: number | null;
}
