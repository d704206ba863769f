/**
 * Writes docs/reference/openapi.json from the output of `nest build`, whose plugin reads the DTOs' types and comments; with `--check` it only says
 * whether the file is current. It starts no database and no engine.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

import { FastifyAdapter } from '@nestjs/platform-fastify';
import { NestFactory } from '@nestjs/core';

import { AppModule } from '../dist-nest/app.module.js';
import { readConfig } from '../dist-nest/kernel/config/read-config.js';
import { openApiDocument } from '../dist-nest/http/docs/openapi.js';

const file = fileURLToPath(new URL('../docs/reference/openapi.json', import.meta.url));
const app = await NestFactory.create(AppModule.forRoot(readConfig({})), new FastifyAdapter(), {
  preview: true,
  abortOnError: false,
  logger: false,
});
const text = `${JSON.stringify(openApiDocument(app), null, 2)}\n`;
if (!process.argv.includes('--check')) writeFileSync(file, text);
else if (!existsSync(file) || readFileSync(file, 'utf8') !== text) {
  process.stderr.write('docs/reference/openapi.json is not current: run `npm run openapi`\n');
  process.exit(1);
}
process.exit(0);
