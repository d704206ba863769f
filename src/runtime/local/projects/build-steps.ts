import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { rootCertificates } from 'node:tls';
import { fileURLToPath } from 'node:url';
import { commandFailure, shownCommand } from '../../build-failure.ts';
import type { BuildSettings } from '../../project-plan.ts';
import { RuntimeRefused } from '../../runtime.errors.ts';
import { folderSize } from '../folder-size.ts';
import { runOneShot } from '../one-shot.ts';
import { StepOutput } from './step-output.ts';

/** The longest time of one command. A deployment's own timeout is usually shorter. */
const STEP_MS_MAX = 4 * 60 * 60_000;
const LOOK_AT_DISK_MS = 2_000;
const COMMAND_CHARACTERS_MAX = 200;
const launcher = fileURLToPath(new URL('./build-step.mjs', import.meta.url));

export interface StepsOptions {
  /** The folder of the build, with everything that its commands write. */
  folder: string;
  /** The largest size of that folder, in bytes. */
  bytesMax: number;
  settings: BuildSettings;
  log: (line: string) => void;
  signal: AbortSignal;
}

/** Runs the commands of one build, each in its own process group, which ends with the command, with the signal, and with the service. */
export class BuildSteps {
  private readonly output: StepOutput;

  constructor(private readonly options: StepsOptions) {
    this.output = new StepOutput(options.log);
  }

  /**
   * Runs the command. Throws `RuntimeRefused` with one sentence if it fails, times out or exceeds the disk limit, and the signal's reason
   * if it aborts.
   */
  async run(argv: string[], cwd: string, environment: Record<string, string>): Promise<void> {
    const command = shownCommand(argv).slice(0, COMMAND_CHARACTERS_MAX);
    this.options.log(`Running ${command}`);
    // The launcher ends when this input does, at the latest when the service ends.
    const stdin = new PassThrough();
    const { exitCode, timedOut } = await this.watched((signal) =>
      runOneShot({
        argv: ['node', launcher, ...argv],
        cwd,
        environment,
        request: {
          argv,
          stdin,
          timeoutMs: STEP_MS_MAX,
          outputLimitBytes: Number.MAX_SAFE_INTEGER,
          onOutput: (stream, bytes) => this.output.push(stream, bytes),
          signal,
        },
        onStart: () => Promise.resolve(),
      }),
    ).finally(() => stdin.end());
    const reason = this.output.endStep();
    if (timedOut) throw new RuntimeRefused(`${command} did not end within ${STEP_MS_MAX / 3_600_000} hours`);
    if (exitCode === 0) return;
    throw new RuntimeRefused(commandFailure(argv, exitCode, reason));
  }

  /**
   * Returns the variables of every command, and creates the folders and the file that they name. The service's own variables are not among
   * them, since they contain secrets.
   */
  async variables(): Promise<Record<string, string>> {
    const { PATH = '/usr/local/bin:/usr/bin:/bin', LANG = 'C.UTF-8' } = process.env;
    const { folder, settings } = this.options;
    const [home, temporary] = [join(folder, 'home'), join(folder, 'tmp')];
    for (const made of [home, temporary]) await mkdir(made, { recursive: true, mode: 0o700 });
    return {
      PATH: `${join(process.execPath, '..')}:${PATH}`,
      LANG,
      HOME: home,
      TMPDIR: temporary,
      ...quiet,
      ...(settings.caFile === null ? {} : trusting(await this.certificates(settings.caFile))),
    };
  }

  /** Writes the operator's certificates and the usual ones into one file, since most programs read only one. */
  private async certificates(caFile: string): Promise<string> {
    const path = join(this.options.folder, 'certificates.pem');
    await writeFile(path, [...rootCertificates, await readFile(caFile, 'utf8')].join('\n'));
    return path;
  }

  private async watched<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { folder, bytesMax, signal } = this.options;
    const tooLarge = new AbortController();
    const check = async () => {
      const size = await folderSize(folder, LOOK_AT_DISK_MS);
      if (size !== null && size > bytesMax)
        tooLarge.abort(new RuntimeRefused(`The build takes more than ${Math.floor(bytesMax / 1024 ** 2)} MiB of disk.`));
    };
    let checking = Promise.resolve();
    const timer = setInterval(() => {
      checking = checking.then(check);
    }, LOOK_AT_DISK_MS);
    try {
      const result = await work(AbortSignal.any([signal, tooLarge.signal]));
      await checking.then(check);
      tooLarge.signal.throwIfAborted();
      return result;
    } finally {
      clearInterval(timer);
    }
  }
}

/** Package managers print neither progress nor advertisements, and keep no files beside the project's. */
const quiet = {
  CI: 'true',
  NO_COLOR: '1',
  npm_config_progress: 'false',
  npm_config_fund: 'false',
  npm_config_audit: 'false',
  npm_config_update_notifier: 'false',
  npm_config_logs_max: '0',
  PIP_DISABLE_PIP_VERSION_CHECK: '1',
  PIP_NO_INPUT: '1',
  PIP_PROGRESS_BAR: 'off',
};

/** Returns the variables by which Node, npm, pip, uv, curl and OpenSSL trust the file's certificates. */
function trusting(caFile: string): Record<string, string> {
  const names = [
    'NODE_EXTRA_CA_CERTS',
    'npm_config_cafile',
    'SSL_CERT_FILE',
    'PIP_CERT',
    'REQUESTS_CA_BUNDLE',
    'CURL_CA_BUNDLE',
    'GIT_SSL_CAINFO',
  ];
  return Object.fromEntries(names.map((name) => [name, caFile]));
}
