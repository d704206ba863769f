import { type ParseArgsConfig, parseArgs } from 'node:util';

import type { Config } from '../kernel/config/config.ts';
import { readConfig } from '../kernel/config/read-config.ts';

type Options = NonNullable<ParseArgsConfig['options']>;
type Values = Record<string, string | boolean | (string | boolean)[] | undefined>;

export interface ToolCall {
  config: Config;
  /** The arguments without a name. */
  words: string[];
  values: Values;
  print: (line: string) => void;
}

/**
 * Runs a command-line tool with the service's own configuration. An error is one line on standard error, with exit code 1; a wrong call has
 * exit code 2.
 */
export async function runTool(usage: string, options: Options, work: (call: ToolCall) => Promise<void>): Promise<void> {
  const say = (line: string) => void process.stdout.write(`${line}\n`);
  try {
    const { positionals: words, values } = parseArgs({ options, allowPositionals: true, strict: true });
    await work({ config: readConfig(process.env), words, values, print: say });
  } catch (error) {
    const isCall = error instanceof UsageError || (error as { code?: string }).code?.startsWith('ERR_PARSE_ARGS') === true;
    process.stderr.write(`mooring: ${(error as Error).message}\n${isCall ? `${usage}\n` : ''}`);
    process.exitCode = isCall ? 2 : 1;
  }
}

/** The command line is invalid. */
export class UsageError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'UsageError';
  }
}
