// Runs a command with the Node of the package node-linux-* at the beginning of PATH, since OpenClaw can't be installed with an older one.
import { spawnSync } from 'node:child_process';
import { constants } from 'node:os';
import { join } from 'node:path';

const [program, ...words] = process.argv.slice(2);
const folder = join(import.meta.dirname, 'node_modules', `node-linux-${process.arch}`, 'bin');
const env = { ...process.env, PATH: `${folder}:${process.env.PATH}` };
const { status, signal, error } = spawnSync(program, words, { stdio: 'inherit', env });
if (error) throw error;
process.exit(status ?? 128 + constants.signals[signal]);
