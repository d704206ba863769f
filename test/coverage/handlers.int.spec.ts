import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

import { ModulesContainer, NestFactory } from '@nestjs/core';
import { Command, Query } from '@nestjs/cqrs';
import { FastifyAdapter } from '@nestjs/platform-fastify';

import { AppModule } from '../../src/app.module.ts';
import { readConfig } from '../../src/kernel/config/read-config.ts';

const source = resolve(import.meta.dirname, '../../src');
/** The metadata keys under which Nest stores the class that a handler serves. */
const SERVES = ['__commandHandler__', '__queryHandler__'];

type Class = abstract new (...args: never[]) => object;

/** Returns every command and query that the service declares, by its name. */
async function declaredMessages(): Promise<Map<Class, string>> {
  const found = new Map<Class, string>();
  for (const name of readdirSync(source, { recursive: true, encoding: 'utf8' })) {
    if (!name.endsWith('.ts') || name.endsWith('.spec.ts')) continue;
    const file = join(source, name);
    const text = readFileSync(file, 'utf8');
    if (!/ extends (Command|Query)</.test(text)) continue;
    const exported = Object.entries((await import(file)) as Record<string, unknown>);
    const messages = exported.filter(
      (entry): entry is [string, Class] =>
        typeof entry[1] === 'function' && (entry[1].prototype instanceof Command || entry[1].prototype instanceof Query),
    );
    for (const [exportedAs, message] of messages) found.set(message, exportedAs);
    const declared = text.match(/class \w+(<[^>]*>)? extends (Command|Query)</g) ?? [];
    if (declared.length > messages.length) throw new Error(`${name} declares a command or query that it does not export.`);
  }
  return found;
}

/** Returns the command or query that each handler of the modules serves. */
async function servedMessages(): Promise<unknown[]> {
  const options = { preview: true, abortOnError: false, logger: false } as const;
  const app = await NestFactory.create(AppModule.forRoot(readConfig({})), new FastifyAdapter(), options);
  const providers = [...app.get(ModulesContainer).values()].flatMap((module) => [...module.providers.values()]);
  const classes = providers.map(({ metatype }) => metatype).filter((metatype) => typeof metatype === 'function');
  return classes.flatMap((metatype) => SERVES.map((key) => Reflect.getMetadata(key, metatype) as unknown)).filter(Boolean);
}

describe('Every command and query', () => {
  it('has exactly one handler, which is a provider of a module', async () => {
    const declared = await declaredMessages();
    expect(declared.size).toBeGreaterThan(40);
    const served = await servedMessages();
    const bases = new Set([...declared.keys()].map((message) => Object.getPrototypeOf(message) as unknown));
    const concrete = [...declared].filter(([message]) => !bases.has(message));
    const wrong = concrete.map(([message, name]) => ({ name, handlers: served.filter((each) => each === message).length }));
    // A failure is fixed by a handler for the message, in the `providers` of its feature's module.
    expect(wrong.filter(({ handlers }) => handlers !== 1)).toEqual([]);
  });
});
